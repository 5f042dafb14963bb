# expect: E0113 at 3:1

modle Line:
    slope: [Features]

dim Features = 3

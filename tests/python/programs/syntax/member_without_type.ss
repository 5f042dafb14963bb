# expect: E0126 at 4:5

model Line:
    slope = 3

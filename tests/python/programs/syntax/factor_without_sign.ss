# expect: E0119 at 4:13

model Line:
    slope: [2D]

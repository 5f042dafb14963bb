# expect: E0114 at 3:11

model Line
    slope: [D]

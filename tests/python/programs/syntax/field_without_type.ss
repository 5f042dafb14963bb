# expect: E0126 at 4:5

data Point:
    x

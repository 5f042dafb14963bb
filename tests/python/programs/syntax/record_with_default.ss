# expect: E0100 at 4:12

data Point:
    x: int = 1

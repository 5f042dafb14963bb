# Parameters are floats.
# expect: E0301 at 5:8

model M:
    w: int[3] = zeros

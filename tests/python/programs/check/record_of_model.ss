# A record's fields are tensors and host values.
# expect: E0301 at 8:8

model M:
    w: [] = zeros

data R:
    m: M

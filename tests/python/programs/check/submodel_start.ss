# A sub-model begins by its own initialisers, or with zeros.
# expect: E0301 at 9:21

model Inner:
    w: [3] = ones

model M:
    first: Inner = zeros
    second: Inner = ones

# A model that can't be compiled.
# expect: E0503 at 7:7

model B:
    w: [3] = zeros

model M:
    blocks: B * 1000000000

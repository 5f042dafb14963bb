# Only models have parts that are assigned.
# expect: E0605 at 8:5

data Point:
    x: [3]

fn f(mut opt: AdamW[M]):
    opt.step = 3

model M:
    w: [3] = ones

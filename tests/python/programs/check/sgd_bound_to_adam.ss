# A `mut` optimiser keeps its kind.
# expect: E0301 at 8:5

model M:
    w: [3] = zeros

fn f(m: M, mut opt: AdamW[M]):
    opt = Sgd(m)

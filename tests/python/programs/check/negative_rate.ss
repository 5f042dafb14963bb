# A rate of at least 0.
# expect: E0503 at 8:34

model M:
    w: [] = zeros

fn f(mut m: M, mut opt: AdamW[M], g: M):
    update(mut m, mut opt, g, lr=-1e-3)

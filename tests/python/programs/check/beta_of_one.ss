# A moment that keeps everything never learns.
# expect: E0503 at 8:27

model M:
    w: [3] = zeros

fn f(m: M) -> AdamW[M]:
    return AdamW(m, beta2=1.0)

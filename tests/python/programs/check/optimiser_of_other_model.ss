# An optimiser updates the model that it was made for.
# expect: E0301 at 11:23

model M:
    w: [3] = zeros

model N:
    w: [3] = zeros

fn f(mut m: M, mut o: AdamW[N], g: M):
    update(mut m, mut o, g, lr=0.1)

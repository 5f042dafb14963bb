# Each kind of optimiser is a type of its own.
# expect: E0301 at 11:18

model M:
    w: [3] = zeros

fn f(mut m: M, mut o: Adam[M], g: M):
    update(mut m, mut o, g, lr=0.1)

fn g(mut m: M, mut o: Sgd[M], d: M):
    f(mut m, mut o, d)

# What is updated with is an optimiser of the model.
# expect: E0301 at 8:23

model M:
    w: [3] = zeros

fn f(mut m: M, mut o: M, g: M):
    update(mut m, mut o, g, lr=0.1)

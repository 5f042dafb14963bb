# Nesterov's step looks ahead along the momentum.
# expect: E0503 at 8:28

model M:
    w: [3] = zeros

fn f(m: M) -> Sgd[M]:
    return Sgd(m, nesterov=true)

# A model takes the dims that it declares.
# expect: E2302 at 7:9

model M[D, E]:
    w: [D E] = zeros

fn f(m: M[3]):
    return

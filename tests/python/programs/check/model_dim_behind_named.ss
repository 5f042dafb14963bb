# What is given by name stands last.
# expect: E2302 at 7:16

model M[D, E = 1]:
    w: [D E] = zeros

fn f(m: M[D=3, 2]):
    return

# A dim in order and by name.
# expect: E2302 at 7:14

model M[D, Stride = 1]:
    w: [D] = zeros

fn f(m: M[3, D=2]):
    return

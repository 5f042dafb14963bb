# A dim without a default.
# expect: E2302 at 7:9

model M[D, E, Stride = 1]:
    w: [D E] = zeros

fn f(m: M[3, Stride=2]):
    return

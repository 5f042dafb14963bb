# A default may leave a remainder.
# expect: E0501 at 7:9

model M[D, E = D/2]:
    w: [D E] = zeros

fn f(m: M[3]):
    return

# A dim is a whole number.
# expect: E0502 at 7:14

model M[D, E = 1]:
    w: [D E] = zeros

fn f(m: M[3, E=0.5]):
    return

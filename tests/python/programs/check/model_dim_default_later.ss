# A default is made of the dims before.
# expect: E0203 at 4:13

model M[D = E, E = 1]:
    w: [D E] = zeros

fn f(m: M):
    return

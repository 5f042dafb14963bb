# A default may come out as no size.
# expect: E0503 at 7:9

model M[D, E = D-5]:
    w: [D E] = zeros

fn f(m: M[3]):
    return

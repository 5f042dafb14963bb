# Also the sizes inside of a model are exact.
# expect: E0501 at 7:9

model M[D, H]:
    w: [D/H] = zeros

fn f(m: M[7, 3]):
    return

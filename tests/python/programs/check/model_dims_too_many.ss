# More than are declared.
# expect: E2302 at 7:9

model M[D, Stride = 1]:
    w: [D] = zeros

fn f(m: M[3, 1, 1]):
    return

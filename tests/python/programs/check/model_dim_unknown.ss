# A model has the dims that it declares.
# expect: E0311 at 7:14

model M[D, Stride = 1]:
    w: [D] = zeros

fn f(m: M[3, Strides=2]):
    return

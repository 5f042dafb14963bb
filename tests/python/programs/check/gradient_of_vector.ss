# A gradient is taken of a scalar.
# expect: E0802 at 8:27

model M:
    w: [] = zeros

fn f(m: M, x: [b]):
    l, g = value_and_grad(x * m.w, wrt=m)

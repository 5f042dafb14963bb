# Of several results, the loss is the first.
# expect: E0802 at 11:30

model M:
    w: [3] = ones

fn both(m: M, x: [b 3]) -> ([b], []):
    return x @ m.w, mean(x @ m.w, over=b)

fn f(m: M, x: [b 3]):
    y, l, g = value_and_grad(both(m, x), wrt=m)

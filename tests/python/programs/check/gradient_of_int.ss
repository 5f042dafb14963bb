# A gradient is taken with respect to floats.
# expect: E0803 at 5:47

fn f(x: int[b], y: [b]):
    l, g = value_and_grad(sum(y, over=b), wrt=x)

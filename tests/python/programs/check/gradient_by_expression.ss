# wrt is a name.
# expect: E0803 at 5:51

fn f(x: [n]):
    l, g = value_and_grad(sum(x * x, over=n), wrt=x * 2.0)

# A gradient is taken of something.
# expect: E0302 at 5:12

fn f(x: [n]):
    l, g = value_and_grad(sum(x * x, over=n))

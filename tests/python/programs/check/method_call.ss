# There are no methods.
# expect: E0306 at 5:12

fn f(x: [b n]) -> [b]:
    return x.sum(over=n)

# expect: E0302 at 4:24

fn f(x: [b]) -> [b]:
    return softplus(x, 2.0)

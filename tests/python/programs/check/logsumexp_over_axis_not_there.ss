# expect: E0402 at 4:30

fn f(x: [b n]) -> [b]:
    return logsumexp(x, over=m)

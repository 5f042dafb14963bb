# expect: E0130 at 4:22

fn f(x: [b n]) -> [n b]:
    return rearrange(x, b n -> n b)

# expect: E0405 at 4:33

fn f(x: [b n], mask: bool[n], y: [n]) -> [b n]:
    return masked_fill(x, mask, y)

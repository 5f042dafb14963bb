# expect: E0301 at 4:24

fn f(x: float, mask: bool[n]) -> [n]:
    return masked_fill(x, mask, 0.0)

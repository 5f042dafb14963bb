# expect: E0401 at 4:12

fn f(x: [b n], mask: bool[m]) -> [b n]:
    return masked_fill(x, mask, 0.0)

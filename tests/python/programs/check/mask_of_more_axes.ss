# The result has the axes of what is filled.
# expect: E0405 at 5:27

fn f(x: [b], mask: bool[b n]) -> [b n]:
    return masked_fill(x, mask, 0.0)

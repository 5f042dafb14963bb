# A function has the dims that it declares.
# expect: E0311 at 8:18

fn pairs[D](x: [n]) -> [n//D]:
    return zeros[n//D]

fn g(x: [n]) -> [n//2]:
    return pairs[E=2](x)

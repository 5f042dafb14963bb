# A dim that no argument shows stands in brackets.
# expect: E2301 at 8:12

fn pairs[D](x: [n]) -> [n//D]:
    return zeros[n//D]

fn g(x: [n]) -> [n//2]:
    return pairs(x)

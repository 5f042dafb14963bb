# A dim in brackets is known when the program is compiled.
# expect: E0502 at 8:18

fn pairs[D](x: [n]) -> [n//D]:
    return zeros[n//D]

fn g(x: [n], y: [m]) -> [n//m]:
    return pairs[m](x)

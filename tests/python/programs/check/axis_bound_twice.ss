# One axis variable, two axes.
# expect: E0401 at 8:17

fn f(x: [b n], y: [n b]) -> [b n]:
    return x

fn g(x: [b n], y: [b n]) -> [b n]:
    return f(x, y)

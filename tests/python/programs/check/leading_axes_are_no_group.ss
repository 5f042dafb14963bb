# Two leading axes are not one group of them.
# expect: E0401 at 8:17

fn f(x: [..s n], y: [..s n]) -> [..s n]:
    return x + y

fn g(x: [a b n], y: [(a b) n]) -> [a b n]:
    return f(x, y)

# Leading axes are the same in a whole signature.
# expect: E0401 at 8:17

fn f(x: [..s n], y: [..s n]) -> [..s n]:
    return x + y

fn g(x: [a b n], y: [b a n]) -> [a b n]:
    return f(x, y)

# A dim is known when the program is compiled, an axis variable is not.
# expect: E0502 at 11:19
# expect: E0502 at 15:12

model M[D]:
    w: [D] = zeros

fn f[D](x: [b D]) -> [b D]:
    return x

fn g(x: [n], m: M[n]) -> [n]:
    return x

fn h(x: [b n]) -> [b n]:
    return f(x)

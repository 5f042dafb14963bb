# What stands in brackets agrees with the arguments.
# expect: E0401 at 8:17

fn f[D](x: [b D]) -> [b D]:
    return x

fn g(x: [b 3]) -> [b 3]:
    return f[4](x)

# An argument with another axis than the parameter.
# expect: E0401 at 11:14

dim D = 3
dim E = 3

fn f(x: [b D]) -> [b D]:
    return x

fn g(x: [b E]) -> [b E]:
    return f(x)

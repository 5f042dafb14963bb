# Places are assigned of a `mut` variable.
# expect: E0605 at 10:5
# expect: E0201 at 14:5
# expect: E0301 at 19:5
# expect: E0605 at 24:5
# expect: E0406 at 29:5
# expect: E0605 at 33:5

fn f(x: [b n]) -> [b n]:
    x[n=0] = 0.0
    return x

fn g(x: [b n]) -> [b n]:
    y[n=0] = 0.0
    return x

fn h(x: [b n]) -> [b n]:
    mut y = 3
    y[n=0] = 0.0
    return x

fn k(x: [b n]) -> [b n]:
    mut y = x
    y[n=0][b=0] = 0.0
    return y

fn l(x: [b n]) -> [b n]:
    mut y = x
    y[0] = 0.0
    return y

fn m(x: [b n]) -> [b n]:
    relu(x)[n=0] = 0.0
    return x

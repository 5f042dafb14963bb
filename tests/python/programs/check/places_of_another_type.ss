# What is assigned to places has their elements, and axes among theirs.
# expect: E0401 at 11:5
# expect: E0310 at 16:14
# expect: E0310 at 21:14
# expect: E0310 at 26:14
# expect: E0301 at 31:14
# expect: E0401 at 36:14

fn f(x: [b n]) -> [b n]:
    mut y = x
    y[n=0] = x
    return y

fn g(x: [b n], v: f64[b]) -> [b n]:
    mut y = x
    y[n=0] = v
    return y

fn h(x: int[b n]) -> int[b n]:
    mut y = x
    y[n=0] = 0.5
    return y

fn k(x: bool[b n]) -> bool[b n]:
    mut y = x
    y[n=0] = 1
    return y

fn l(x: [b n]) -> [b n]:
    mut y = x
    y[n=0] = "zero"
    return y

fn m(x: [n (h w)], v: [h*w]) -> [n (h w)]:
    mut y = x
    y[n=0] = v
    return y

# The same tensor isn't changed and read in one call.
# expect: E0602 at 8:16

fn add(mut x: [n], y: [n]):
    x = x + y

fn f(mut x: [n]):
    add(mut x, x)

fn g(x: [n]) -> [n]:
    mut y = x
    before = y
    add(mut y, before)
    return y

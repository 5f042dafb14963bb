# Equal sizes are not equal axes.
# expect: E0401 at 8:12

dim B = 5
dim D = 5

fn f(x: [n D], w: [B]) -> [n D]:
    return x + w

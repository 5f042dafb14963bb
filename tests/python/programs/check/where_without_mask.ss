# expect: E0310 at 4:18

fn f(x: [b], y: [b]) -> [b]:
    return where(x, x, y)

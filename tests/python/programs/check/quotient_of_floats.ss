# expect: E0902 at 4:12

fn f(x: [b], y: [b]) -> [b]:
    return x // y

# expect: E0310 at 4:16

fn f(x: bool[b]) -> bool[b]:
    return abs(x)

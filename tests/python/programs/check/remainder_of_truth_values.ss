# expect: E0310 at 4:12

fn f(x: bool[b], y: bool[b]) -> bool[b]:
    return x % y

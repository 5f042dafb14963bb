# expect: E0310 at 4:27

fn f(mask: bool[b], x: int[b]) -> int[b]:
    return where(mask, x, 0.5)

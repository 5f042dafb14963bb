# expect: E0301 at 4:18

fn f(x: [b], k: int) -> [b]:
    return where(k, x, 0.0)

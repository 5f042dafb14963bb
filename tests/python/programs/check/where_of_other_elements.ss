# expect: E0310 at 4:12

fn f(mask: bool[b], x: [b], y: f64[b]) -> [b]:
    return where(mask, x, y)

# expect: E0301 at 4:27

fn f(mask: bool[b], x: [b]) -> [b]:
    return where(mask, x, "0")

# A rate below 1.
# expect: E0503 at 5:23

fn f(x: [b], mode: Mode) -> [b]:
    return dropout(x, 1.5, mode)

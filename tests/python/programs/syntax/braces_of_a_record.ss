# expect: E0121 at 7:17

data Point:
    x: int

fn f() -> Point:
    return Point{x: 1}

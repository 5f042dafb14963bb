# expect: E0100 at 4:14

fn f(x: int, y: int) -> int:
    return x y

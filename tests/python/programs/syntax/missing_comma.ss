# expect: E0100 at 4:18

fn f(x: int, y: int) -> int:
    return max(x y)

# expect: E0117 at 4:18

fn f(a: int, b: int, c: int) -> bool:
    return a < b < c

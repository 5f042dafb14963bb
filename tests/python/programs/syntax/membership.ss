# expect: E0121 at 4:14

fn f(x: int, y: int) -> bool:
    return x in y

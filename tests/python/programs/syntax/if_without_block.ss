# expect: E0106 at 4:5

fn f(x: int) -> int:
    if x > 0:
    return 1

# expect: E0106 at 4:15

fn f(x: int) -> int:
    if x > 0: return 1
    return 2

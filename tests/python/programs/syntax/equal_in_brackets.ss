# expect: E0115 at 4:17

fn f(x: int) -> bool:
    return g((x = 3))

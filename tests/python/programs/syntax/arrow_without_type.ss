# expect: E0126 at 3:17

fn f(x: int) -> :
    return

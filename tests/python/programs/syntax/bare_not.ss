# expect: E0100 at 4:17

fn f(x: bool, y: bool) -> bool:
    return x == not y

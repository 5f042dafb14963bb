# expect: E0121 at 4:14

fn f(x: bool, y: bool) -> bool:
    return x && y

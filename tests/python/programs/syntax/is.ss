# expect: E0121 at 4:14

fn f(x: int) -> bool:
    return x is 3

# expect: E0121 at 4:14

fn f(a: bool) -> int:
    return 1 if a else 2

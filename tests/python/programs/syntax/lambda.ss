# expect: E0121 at 4:16

fn f(x: int) -> int:
    return map(lambda y: y, x)

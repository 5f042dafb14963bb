# expect: E0100 at 3:15

fn f(x: int): int:
    return x

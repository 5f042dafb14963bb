# expect: E0100 at 4:15

fn f(x: int) -> int:
    return x +
        1

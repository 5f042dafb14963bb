# expect: E0105 at 5:9

fn f(x: int) -> int:
    y = x
        + 1
    return y

# expect: E0128 at 6:5

fn f(x: int) -> int:
    if x > 0:
        return 1
    else if x < 0:
        return 2
    return 3

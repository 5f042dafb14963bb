# expect: E0128 at 8:5

fn f(x: int) -> int:
    if x > 0:
        return 1
    else:
        return 2
    elif x < 0:
        return 3

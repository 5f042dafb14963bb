# expect: E0114 at 6:9

fn f(x: int) -> int:
    if x > 0:
        return 1
    else
        return 2

# expect: E0114 at 4:13

fn f(x: int) -> int:
    if x > 0
        return 1
    return 2

# expect: E0128 at 6:1

fn f(x: int) -> int:
    if x > 0:
        return 1
else:
    return 2

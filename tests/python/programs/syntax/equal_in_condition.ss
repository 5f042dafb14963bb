# expect: E0115 at 4:10

fn f(x: int) -> int:
    if x = 3:
        return 1
    return 2

# expect: E0121 at 4:18

fn f(x: int) -> int:
    return sum(y for y in x)

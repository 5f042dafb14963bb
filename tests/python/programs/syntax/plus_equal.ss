# expect: E0121 at 5:7

fn f(n: int) -> int:
    mut x = n
    x += 1
    return x

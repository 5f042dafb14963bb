# expect: E0107 at 4:10

fn f(x: int) -> int:
    y = g(x, (1 + 2)
    return y

fn g(x: int, y: int) -> int:
    return x

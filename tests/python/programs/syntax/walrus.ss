# expect: E0115 at 4:14

fn f(x: int) -> int:
    while (y := g(x)):
        return y

# expect: E0115 at 4:14

fn f(x: int) -> bool:
    return x === 3

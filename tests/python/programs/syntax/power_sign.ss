# expect: E0101 at 4:13

fn f(x: float) -> float:
    return x^2

# expect: E0301 at 4:17

fn f(x: float) -> float:
    return x ** "two"

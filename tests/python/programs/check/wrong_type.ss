# A string for a number.
# expect: E0301 at 8:14

fn f(rate: float) -> float:
    return rate

fn g() -> float:
    return f("x")

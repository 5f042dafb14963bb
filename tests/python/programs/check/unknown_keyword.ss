# A parameter that is not there.
# expect: E0311 at 8:14

fn f(rate: int) -> int:
    return rate

fn g() -> int:
    return f(rte=1)

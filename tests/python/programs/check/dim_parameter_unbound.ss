# A dim parameter follows from the arguments.
# expect: E2301 at 8:12

fn f[D](x: int) -> int:
    return x * D

fn g() -> int:
    return f(3)

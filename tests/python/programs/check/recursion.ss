# No function calls itself, by whatever way.
# expect: E0309 at 8:12

fn f(x: int) -> int:
    return g(x)

fn g(x: int) -> int:
    return f(x)

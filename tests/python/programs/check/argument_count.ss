# Too few arguments.
# expect: E0302 at 8:12

fn f(x: int, y: int) -> int:
    return x

fn g() -> int:
    return f(1)

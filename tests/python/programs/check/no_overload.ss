# No overload fits.
# expect: E0304 at 11:12

fn f(x: [b]) -> int:
    return 1

fn f(x: int) -> int:
    return 2

fn g() -> int:
    return f(true)

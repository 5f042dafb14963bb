# One name for two results.
# expect: E0202 at 8:8

fn g() -> (int, int):
    return 1, 2

fn f() -> int:
    a, a = g()
    return a

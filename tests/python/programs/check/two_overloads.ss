# Several overloads fit: axes do not choose.
# expect: E0305 at 11:12

fn f(x: [b]) -> int:
    return 1

fn f(x: [n]) -> int:
    return 2

fn g(x: [b]) -> int:
    return f(x)

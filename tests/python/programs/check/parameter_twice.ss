# Two parameters of one name.
# expect: E0202 at 4:14

fn f(x: int, x: int) -> int:
    return x

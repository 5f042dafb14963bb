# expect: E0101 at 4:10

fn f() -> int:
    x = 1; y = 2
    return x

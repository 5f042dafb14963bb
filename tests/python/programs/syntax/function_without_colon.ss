# expect: E0114 at 3:20

fn f(x: int) -> int
    return x

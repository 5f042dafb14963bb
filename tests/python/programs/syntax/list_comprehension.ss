# expect: E0121 at 4:12

fn f() -> int:
    x = [y for y in 0..3]
    return x

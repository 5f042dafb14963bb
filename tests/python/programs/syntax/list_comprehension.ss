# expect: E0121 at 4:9

fn f() -> int:
    x = [y for y in 0..3]
    return x

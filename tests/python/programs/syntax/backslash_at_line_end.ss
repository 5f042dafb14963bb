# expect: E0101 at 4:16

fn f() -> int:
    return 1 + \
        2

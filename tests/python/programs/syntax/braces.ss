# expect: E0121 at 4:13

fn f() -> int:
    return {1, 2}

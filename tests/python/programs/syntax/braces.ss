# expect: E0101 at 4:12

fn f() -> int:
    return {1: 2}

# expect: E0109 at 4:12

fn f(n: int) -> int:
    return 2n

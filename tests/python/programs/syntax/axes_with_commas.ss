# expect: E0119 at 3:11

fn f(x: [b, n]) -> int:
    return 1

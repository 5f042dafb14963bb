# expect: E0119 at 3:12

fn f(x: [b n - 1]) -> int:
    return 1

# expect: E0120 at 3:12

fn f(y: [b 0.5]) -> int:
    return 1

# expect: E0120 at 3:11

fn f(y: [n**2]) -> int:
    return 1

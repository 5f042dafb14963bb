# expect: E0120 at 3:10

fn f(x: [-1 n]) -> int:
    return 1

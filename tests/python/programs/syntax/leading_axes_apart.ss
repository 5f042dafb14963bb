# expect: E0119 at 3:10

fn f(x: [.. s]) -> int:
    return 1

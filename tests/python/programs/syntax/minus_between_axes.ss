# expect: E0119 at 3:10

fn f(x: [n -1]) -> int:
    return 1

# expect: E0119 at 3:10

fn f(x: [(a b)(c d)]) -> int:
    return 1

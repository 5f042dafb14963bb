# expect: E0108 at 3:13

fn f(x: [b n)) -> int:
    return 1

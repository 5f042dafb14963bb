# expect: E0121 at 4:6

fn f():
    x: int = 3

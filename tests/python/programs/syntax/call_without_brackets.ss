# expect: E0100 at 4:10

fn f(x: int):
    show x

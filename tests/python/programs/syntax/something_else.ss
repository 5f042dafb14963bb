# expect: E0100 at 3:13

fn f(x: int,, y: int):
    return

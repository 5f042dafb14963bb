# expect: E0114 at 4:12

fn f(x: bool):
    while x
    return

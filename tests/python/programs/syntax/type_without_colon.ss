# expect: E0126 at 3:8

fn f(x int):
    return

# expect: E0126 at 3:9

fn f(x: 3):
    return

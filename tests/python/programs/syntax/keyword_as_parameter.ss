# expect: E0116 at 3:6

fn f(in: int):
    return

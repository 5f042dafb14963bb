# expect: E0121 at 3:1

@jit
fn f(x: int):
    return

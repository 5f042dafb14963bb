# expect: E0121 at 4:5

fn f(x: int):
    assert x == 1

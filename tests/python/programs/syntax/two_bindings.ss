# expect: E0123 at 4:11

fn f():
    a = b = 3

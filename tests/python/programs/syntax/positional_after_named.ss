# expect: E0124 at 4:12

fn f():
    g(a=1, 2)

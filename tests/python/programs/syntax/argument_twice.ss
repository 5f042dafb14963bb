# expect: E0125 at 4:12

fn f():
    g(a=1, a=2)

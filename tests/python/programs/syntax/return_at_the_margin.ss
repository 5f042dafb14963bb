# expect: E0113 at 6:1

fn f():
    x = 1

return x

# expect: E0123 at 4:5

fn f(mut m: M):
    m.x = 3

# expect: E0127 at 4:12

fn f(m: M):
    update(mut g(m))

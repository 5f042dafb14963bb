# expect: E0127 at 4:18

fn f(m: M):
    update(model=mut m)

# expect: E0114 at 4:30

fn f[M: model](m: M)
    requires loss(m: M) -> []
    return

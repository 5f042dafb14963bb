# expect: E0105 at 5:9

fn f[M: model](m: M)
    requires loss(m: M) -> []:
        return

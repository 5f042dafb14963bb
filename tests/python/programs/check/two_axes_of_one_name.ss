# expect: E0408 at 4:27

fn same(x: [n m]) -> [n n]:
    return rearrange(x: n n -> n n)

# A gather is over one axis.
# expect: E0407 at 5:12

fn f(x: [v d], i: int[b]) -> [b]:
    return gather(x, i, over=(v, d))

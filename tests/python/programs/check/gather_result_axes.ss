# The index's axes come first.
# expect: E0404 at 5:12

fn f(x: [v d], i: int[b]) -> [d b]:
    return gather(x, i, over=v)

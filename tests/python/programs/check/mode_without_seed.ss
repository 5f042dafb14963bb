# A training mode has a seed.
# expect: E0302 at 5:28

fn f(x: [b]) -> [b]:
    return dropout(x, 0.1, Train())

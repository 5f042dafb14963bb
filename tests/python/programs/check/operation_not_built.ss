# The same for operations.
# expect: E0902 at 5:12

fn f(x: [b], y: [b]) -> [b]:
    return concat(x, y, over=b)

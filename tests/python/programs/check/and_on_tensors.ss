# `and` is for host conditions.
# expect: E0301 at 5:12

fn f(x: bool[b], y: bool[b]) -> bool[b]:
    return x and y

# A float doesn't adapt to a tensor of ints.
# expect: E0301 at 5:21

fn f(x: int[b]) -> int[b]:
    return clamp(x, 0.5, 2)

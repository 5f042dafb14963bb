# A float does not adapt to an int tensor.
# expect: E0310 at 5:16

fn f(x: int[b]) -> int[b]:
    return x * 0.5

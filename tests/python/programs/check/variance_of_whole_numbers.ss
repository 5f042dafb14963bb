# expect: E0310 at 4:21

fn f(x: int[b]) -> int[]:
    return variance(x, over=b)

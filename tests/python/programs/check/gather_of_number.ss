# What is gathered from is a tensor.
# expect: E0301 at 5:19

fn f(x: float, i: int[b]) -> [b]:
    return gather(x, i, over=b)

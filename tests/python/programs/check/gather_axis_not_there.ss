# The axis is one of the tensor, not of the index.
# expect: E0402 at 5:30

fn f(x: [v d], i: int[b]) -> [b d]:
    return gather(x, i, over=b)

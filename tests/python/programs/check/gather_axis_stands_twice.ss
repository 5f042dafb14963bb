# Over an axis that stands twice, which one is open.
# expect: E0403 at 7:30

dim D = 3

fn f(x: [D D], i: int[b]) -> [b D]:
    return gather(x, i, over=D)

# Truth values are counted as numbers.
# expect: E0310 at 5:16

fn f(x: bool[b]) -> int[]:
    return sum(x, over=b)

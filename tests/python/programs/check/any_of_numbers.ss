# A number is compared first.
# expect: E0310 at 5:16

fn f(x: [b]) -> bool[]:
    return any(x, over=b)

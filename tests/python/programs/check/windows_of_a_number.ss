# Windows are of a tensor.
# expect: E0301 at 5:20

fn f(x: [n]) -> [n-1 2]:
    return windows(2.0, over=n, size=2)

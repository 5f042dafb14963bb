# There is at least one group.
# expect: E0503 at 5:42

fn f(x: [b 6 n], k: [8 2 3]) -> [b 8 n-2]:
    return convolve(x, k, over=n, groups=0)

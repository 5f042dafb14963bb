# Groups have as many channels each.
# expect: E0501 at 5:24

fn f(x: [b 6 n], k: [8 2 3]) -> [b 8 n-2]:
    return convolve(x, k, over=n, groups=3)

# With groups the weight has the channels of one group.
# expect: E0401 at 5:21

fn f(x: [b 4 n], k: [8 4 3]) -> [b 8 n-2]:
    return convolve(x, k, over=n, groups=2)

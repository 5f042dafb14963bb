# Two axes that could be the channels.
# expect: E0403 at 5:21

fn f(x: [3 3 n], k: [8 3 3]) -> [3 8 n-2]:
    return convolve(x, k, over=n)

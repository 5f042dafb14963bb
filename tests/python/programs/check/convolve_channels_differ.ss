# The weight's second axis is the channels.
# expect: E0401 at 5:21

fn f(x: [b 3 h w], k: [8 4 3 3]) -> [b 8 h-2 w-2]:
    return convolve(x, k, over=(h, w))

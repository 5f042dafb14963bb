# A kernel for as many axes as windows move along.
# expect: E0405 at 5:24

fn f(x: [b 3 h w], k: [8 3 3]) -> [b 8 h-2 w]:
    return convolve(x, k, over=(h, w))

# One number for all axes, or one for each.
# expect: E0302 at 5:40

fn f(x: [b 3 h w], k: [8 3 3 3]) -> [b 8 h-2 w-2]:
    return convolve(x, k, over=(h, w), stride=(1, 1, 1))

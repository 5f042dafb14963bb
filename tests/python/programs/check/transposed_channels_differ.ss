# The weight's first axis is the channels.
# expect: E0401 at 5:32

fn f(x: [3 n], k: [8 3 2]) -> [8 n+1]:
    return convolve_transposed(x, k, over=n)

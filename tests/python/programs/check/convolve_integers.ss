# Products are of floats.
# expect: E0310 at 5:21

fn f(x: int[b 3 n], k: int[8 3 3]) -> int[b 8 n-2]:
    return convolve(x, k, over=n)

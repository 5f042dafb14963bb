# A kernel has at least one place.
# expect: E0503 at 5:24

fn f(x: [b 3 n], k: [8 3 0]) -> [b 8 n+1]:
    return convolve(x, k, over=n)

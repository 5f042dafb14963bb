# Sizes decide shapes.
# expect: E0502 at 5:42

fn f(x: [b 3 n], k: [8 3 3], step: int) -> [b 8 n-2]:
    return convolve(x, k, over=n, stride=step)

# Windows move on.
# expect: E0503 at 5:42

fn f(x: [b 3 n], k: [8 3 3]) -> [b 8 n-2]:
    return convolve(x, k, over=n, stride=0)

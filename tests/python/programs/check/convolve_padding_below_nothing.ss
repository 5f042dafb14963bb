# A padding adds places.
# expect: E0502 at 5:43

fn f(x: [b 3 n], k: [8 3 3]) -> [b 8 n-4]:
    return convolve(x, k, over=n, padding=-1)

# Element types don't mix.
# expect: E0310 at 5:24

fn f(x: [b 3 n], k: f64[8 3 3]) -> [b 8 n-2]:
    return convolve(x, k, over=n)

# Which axes windows move along is said.
# expect: E0406 at 5:12

fn f(x: [b 3 n], k: [8 3 3]) -> [b 8 n-2]:
    return convolve(x, k)

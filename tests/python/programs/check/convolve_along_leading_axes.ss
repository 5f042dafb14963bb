# Windows move along single axes.
# expect: E0407 at 5:32

fn f(x: [..s 3 n], k: [8 3 3]) -> [..s 8 n]:
    return convolve(x, k, over=s)

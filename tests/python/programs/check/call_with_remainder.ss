# A size of the called function that is no whole number.
# expect: E0501 at 8:12

fn f[D, H](x: [D], y: [H]) -> [D/H]:
    return zeros[D/H]

fn g(x: [7], y: [3]) -> [2]:
    return f(x, y)

# As many names as results.
# expect: E0302 at 8:5

fn g(x: [b n]) -> ([b], float):
    return sum(x, over=n), 1.0

fn f(x: [b n]):
    a, c, d = g(x)

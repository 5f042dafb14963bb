# A reduction says over which axes.
# expect: E0406 at 5:12

fn f(x: [b n]) -> []:
    return sum(x)

# An index names its axis.
# expect: E0406 at 5:12

fn f(x: [b n]) -> [n]:
    return x[0]

# Reducing over an axis that is not there.
# expect: E0402 at 7:24

dim D = 3

fn f(x: [b D]) -> [b]:
    return sum(x, over=n)

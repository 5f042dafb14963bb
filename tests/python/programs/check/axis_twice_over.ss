# Reducing over an axis that stands twice.
# expect: E0403 at 7:24

dim D = 3

fn f(x: [D D]) -> [D]:
    return sum(x, over=D)

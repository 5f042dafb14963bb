# An axis named twice in over=.
# expect: E0407 at 5:28

fn f(x: [b n]) -> []:
    return sum(x, over=(b, b))

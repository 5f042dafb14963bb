# `@` sums the last axis of the left with the second last of the right.
# expect: E0401 at 5:12

fn f(x: [b n], w: [m n]) -> [b m]:
    return x @ w

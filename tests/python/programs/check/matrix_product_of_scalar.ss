# `@` is for tensors with axes.
# expect: E0301 at 5:12

fn f(x: [], w: [n]) -> [n]:
    return x @ w

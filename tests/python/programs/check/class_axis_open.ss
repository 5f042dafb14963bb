# The class axis is the one that the labels lack; here they lack two.
# expect: E0406 at 5:12

fn f(x: [b n v], y: int[b]) -> []:
    return cross_entropy(x, y)

# The same axes in another order.
# expect: E0401 at 5:12

fn f(x: [a b], y: [b a]) -> [a b]:
    return x + y

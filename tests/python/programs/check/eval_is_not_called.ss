# Eval is a value.
# expect: E0306 at 5:28

fn f(x: [b]) -> [b]:
    return dropout(x, 0.1, Eval())

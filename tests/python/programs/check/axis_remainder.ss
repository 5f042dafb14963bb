# Also in a shape.
# expect: E0501 at 7:10

dim A = 7
dim H = 2

fn f(x: [A/H]):
    return

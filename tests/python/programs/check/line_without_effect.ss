# A value that nothing uses, on a line of its own.
# expect: E0313 at 5:5

fn f(x: [b]) -> [b]:
    x * 2
    relu(x)
    return x

# The result is not as declared, though the function is never called.
# expect: E0404 at 7:12

dim D = 3

fn f(x: [b D]) -> [b]:
    return x

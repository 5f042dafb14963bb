# A name that is not declared, used often: one diagnostic.
# expect: E0201 at 5:9

fn f(x: [b]) -> [b]:
    y = nothing + x
    z = y + y
    return z * y

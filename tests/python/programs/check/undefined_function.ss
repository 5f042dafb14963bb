# A function that is not there.
# expect: E0201 at 5:12

fn f(x: [b]) -> [b]:
    return reluu(x)

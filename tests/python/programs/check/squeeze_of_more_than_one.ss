# Only an axis of size 1 may be left out.
# expect: E0406 at 7:34

dim Two = 2

fn f(x: [b Two]) -> [b]:
    return rearrange(x: b Two -> b)

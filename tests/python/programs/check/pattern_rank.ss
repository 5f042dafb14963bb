# A pattern names every axis.
# expect: E0405 at 5:25

fn f(x: [b n m]) -> [b n]:
    return rearrange(x: b n -> b n)

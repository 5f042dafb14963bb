# rearrange keeps every axis.
# expect: E0406 at 5:32

fn f(x: [b n]) -> [b]:
    return rearrange(x: b n -> b)

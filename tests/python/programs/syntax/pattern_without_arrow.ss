# expect: E0100 at 4:23

fn f(x: [b n]) -> [b n]:
    return rearrange(x: b n)

# expect: E0406 at 4:12

fn f(x: bool[b n]) -> bool[]:
    return any(x)

# `!` is for bool tensors.
# expect: E0310 at 5:13

fn f(x: bool) -> bool:
    return !x

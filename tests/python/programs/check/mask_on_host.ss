# `&` is for bool tensors.
# expect: E0310 at 5:12

fn f(a: bool, b: bool) -> bool:
    return a & b

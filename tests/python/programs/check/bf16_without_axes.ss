# expect: E0308 at 2:9
fn f(x: bf16) -> bf16:
    return x

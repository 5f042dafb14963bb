# expect: E0310 at 6:17
fn half(x: [b]) -> [b]:
    return x / 2

fn f(x: bf16[b]) -> [b]:
    return half(x)

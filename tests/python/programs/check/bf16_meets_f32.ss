# expect: E0310 at 3:12
fn f(x: bf16[b], y: [b]) -> [b]:
    return x + y

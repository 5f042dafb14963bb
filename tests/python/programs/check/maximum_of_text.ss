# expect: E0301 at 4:23

fn f(x: [b]) -> [b]:
    return maximum(x, "1")

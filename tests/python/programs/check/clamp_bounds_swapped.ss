# Bounds that are known are compared.
# expect: E0503 at 5:21

fn f(x: [b]) -> [b]:
    return clamp(x, 1.0, -1.0)

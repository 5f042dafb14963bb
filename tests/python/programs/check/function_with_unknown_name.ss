# expect: E0311 at 4:26

fn f(x: [b]) -> [b]:
    return leaky_relu(x, alpha=0.2)

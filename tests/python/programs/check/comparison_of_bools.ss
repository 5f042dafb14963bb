# Bool tensors are combined, not compared.
# expect: E0310 at 5:12

fn f(x: bool[b], y: bool[b]) -> bool[b]:
    return x == y

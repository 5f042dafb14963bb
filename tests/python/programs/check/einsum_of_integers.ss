# einsum is for floats.
# expect: E0310 at 5:19

fn f(x: int[b n], y: int[n]) -> int[b]:
    return einsum(x, y: b n, n -> b)

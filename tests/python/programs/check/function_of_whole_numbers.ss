# Functions of floats don't convert a tensor of ints by themselves.
# expect: E0310 at 5:17

fn f(x: int[b]) -> [b]:
    return gelu(x)

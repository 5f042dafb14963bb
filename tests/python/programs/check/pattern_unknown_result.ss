# An axis of the result is in no operand.
# expect: E0402 at 5:34

fn f(x: [b n]) -> [b n]:
    return rearrange(x: b n -> b k)

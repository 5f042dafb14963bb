# The pattern exchanges two axes that the operand has in another order.
# expect: E0408 at 7:29

dim H = 4

fn f(x: [b H n m]) -> [b H n m]:
    return rearrange(x: b H m n -> b H n m)

# Added to a plain product, a group keeps its order.
# expect: E0408 at 9:28

dim H = 2
dim W = 3

fn f(x: [b H*W], y: [b (H W)]) -> [b W H]:
    z = x + y
    return rearrange(z: b (W H) -> b W H)

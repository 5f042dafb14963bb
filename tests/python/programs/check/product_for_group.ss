# A plain product has no order, so it is no group.
# expect: E0401 at 12:14
# expect: E0404 at 15:12

dim H = 2
dim W = 3

fn f(x: [b (H W)]) -> [b W H]:
    return rearrange(x: b (H W) -> b W H)

fn g(x: [b H*W]) -> [b W H]:
    return f(x)

fn h(x: [b H*W]) -> [b (W H)]:
    return x

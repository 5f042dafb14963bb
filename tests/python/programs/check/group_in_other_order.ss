# A group opens in its own order only.
# expect: E0408 at 8:28

dim H = 2
dim W = 2

fn f(x: [b (H W)]) -> [b W H]:
    return rearrange(x: b (W H) -> b W H)

# A factor given against the size that it has.
# expect: E0401 at 5:24

fn f(x: [b (h w)]) -> [b w h]:
    y = rearrange(x: b (h w) -> b w h, h=3)
    return y

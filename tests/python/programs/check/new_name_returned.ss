# A pattern's new name for an axis is another name than the declared one.
# expect: E0404 at 7:12

dim D = 3

fn f(x: [b D]) -> [b D]:
    return rearrange(x: b d -> b d)

# A new name for an axis of a block's own size ends with the block.
# expect: E0201 at 13:16
# expect: E0201 at 19:16

data Point:
    x: [2]

fn f(x: [b n], k: int) -> float:
    mut s = 0.0
    for i in 0..k:
        y = rearrange(x[n=i..k]: b w -> b w)
        s = s + sum(y, over=(b, w)) / w
    return s + w

fn g(points: Dataset[Point]) -> float:
    mut s = 0.0
    for batch in points |> batches(2):
        s = s + sum(rearrange(batch.x: k 2 -> k 2), over=(k, 2))
    return s + k

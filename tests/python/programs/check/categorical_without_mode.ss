# A draw is a mode's.
# expect: E0302 at 5:12

fn f(x: [b n]) -> int[b]:
    return categorical(x, over=n)

# A choice is among the places of one axis.
# expect: E0407 at 5:12

fn f(x: [b n], mode: Mode) -> int[b]:
    return categorical(x, mode, over=(b, n))

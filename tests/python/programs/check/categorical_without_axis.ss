# What is chosen among, the program says.
# expect: E0406 at 5:12

fn f(x: [b n], mode: Mode) -> int[b]:
    return categorical(x, mode)

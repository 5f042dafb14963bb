# Logits are floats.
# expect: E0310 at 5:24

fn f(x: int[b n], mode: Mode) -> int[b]:
    return categorical(x, mode, over=n)

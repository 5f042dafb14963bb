# An outer binding that is not mut.
# expect: E0603 at 7:9

fn f(x: int) -> int:
    y = 1
    for i in 0..3:
        y = y + i
    return y

# Constructs of the language that are not compiled yet say so.
# expect: E0901 at 6:5
# expect: E0901 at 10:9

model M:
    rate: float

fn f(n: int) -> int:
    for i in 0..n:
        return i
    return n

# Constructs of the language that are not compiled yet say so.
# expect: E0901 at 7:5
# expect: E0901 at 10:12
# expect: E0901 at 12:6

model M:
    buffer mean: [] = zeros

fn f(x: [b n]) -> [b]:
    return x[n=0]

fn g[E: data](d: Dataset[E]):
    return

# Constructs of the language that are not compiled yet say so.
# expect: E0901 at 6:5
# expect: E0901 at 9:12

model M:
    buffer mean: [] = zeros

fn f(x: [b n]) -> [b]:
    return x[n=0]

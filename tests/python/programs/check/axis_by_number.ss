# Axes have names, not numbers.
# expect: E0402 at 5:24

fn f(x: [b n]) -> [b]:
    return sum(x, over=1)

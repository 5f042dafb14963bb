# An exact quotient is an error where the other rounds down: they are two axes.
# expect: E0404 at 5:12

fn f(x: [n]) -> [n//2]:
    return zeros[n/2]

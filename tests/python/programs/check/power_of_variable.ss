# An exponent that is no integer literal isn't built yet.
# expect: E0901 at 5:17

fn f(x: [b], k: int) -> [b]:
    return x ** k

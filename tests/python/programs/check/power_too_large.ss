# A repeated product has at most 64 factors.
# expect: E0503 at 5:17

fn f(x: [b]) -> [b]:
    return x ** 65

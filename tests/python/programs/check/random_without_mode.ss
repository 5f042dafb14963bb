# Random numbers are a mode's.
# expect: E0302 at 5:12

fn f(x: [b]) -> [b]:
    return random_uniform[b]()

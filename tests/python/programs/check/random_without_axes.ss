# Random numbers are made for axes.
# expect: E0301 at 5:12

fn f(mode: Mode) -> [3]:
    return random_normal(mode)

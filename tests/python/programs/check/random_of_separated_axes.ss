# Axes are separated by spaces.
# expect: E0301 at 5:12

fn f(x: [b n], mode: Mode) -> [b n]:
    return random_normal[b, n](mode)

# A number isn't a dim of that size, but a pattern names it.
# expect: E0401 at 8:12
# expect: E0401 at 11:43

dim D = 2

fn f(x: [D]) -> [D]:
    return x + [1.0, 2.0]

fn g(x: [D]) -> [D]:
    return x + rearrange([1.0, 2.0, 3.0]: D -> D)

fn h(x: [D]) -> [D]:
    return x + rearrange([1.0, 2.0]: D -> D)

# An axis is indexed once, and one that stands twice in the tensor has no name of its own.
# expect: E0407 at 8:19
# expect: E0403 at 11:14

dim D = 3

fn f(x: [b n]) -> [b]:
    return x[n=0, n=1]

fn g(x: [D D]) -> [D]:
    return x[D=0]

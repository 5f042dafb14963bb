# A record's field has its declared axes.
# expect: E0401 at 11:16

dim D = 3
dim E = 3

data R:
    x: [D]

fn f(x: [E]) -> R:
    return R(x=x)

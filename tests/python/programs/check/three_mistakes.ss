# Three mistakes, three diagnostics, none that follows from another.
# expect: E0404 at 9:12
# expect: E0201 at 12:16
# expect: E0201 at 15:9

dim D = 3

fn a(x: [b D]) -> [b]:
    return x

fn c(x: [b D]) -> [b D]:
    return x + y

fn d(x: [b D]):
    z = nope(x)
    w = z + 1

# A wrong annotation is reported at its function, not at every correct caller.
# expect: E0404 at 8:12

dim D = 3
dim E = 4

fn a(x: [b D]) -> [b E]:
    return x

fn c(x: [b D]) -> [b E]:
    return a(x)

# From four letters up, one letter is enough for the warning, whatever the case.
# expect: E0207 at 7:12

dim Hidden = 3
dim D = 3

fn f(x: [b hiden e]):
    return

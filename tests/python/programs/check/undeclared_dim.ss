# An upper-case axis is declared; the nearest is named.
# expect: E0203 at 6:12

dim Hidden = 3

fn f(x: [b Hiden]):
    return

# An axis variable that differs from a dim by case is warned about.
# expect: E0207 at 6:12

dim Hidden = 3

fn f(x: [b hidden]):
    return

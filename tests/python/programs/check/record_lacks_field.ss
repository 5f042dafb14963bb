# A record is made of all its fields.
# expect: E0302 at 9:12
# expect: E0311 at 12:19

data R:
    a: int

fn f() -> R:
    return R()

fn g() -> R:
    return R(a=1, c=2)

# A parameter without mut can not be changed.
# expect: E0605 at 11:7

model M:
    w: [] = zeros

fn g(mut m: M):
    return

fn f(m: M):
    g(mut m)

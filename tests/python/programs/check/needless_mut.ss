# A parameter that is not mut.
# expect: E0604 at 11:7

model M:
    w: [] = zeros

fn g(m: M):
    return

fn f(mut m: M):
    g(mut m)

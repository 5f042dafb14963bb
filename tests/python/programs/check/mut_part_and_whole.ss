# A part of what is mut is the same value.
# expect: E0602 at 14:14

model B:
    w: [3] = zeros

model M:
    a: B

fn g(mut m: M, b: B):
    return

fn f(mut m: M):
    g(mut m, m.a)

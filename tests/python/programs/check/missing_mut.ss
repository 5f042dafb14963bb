# What may change says so at the call.
# expect: E0601 at 11:7

model M:
    w: [] = zeros

fn g(mut m: M):
    return

fn f(mut m: M):
    g(m)

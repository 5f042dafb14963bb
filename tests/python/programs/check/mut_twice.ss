# The same value as mut and once more.
# expect: E0602 at 11:14

model M:
    w: [] = zeros

fn g(mut m: M, n: M):
    return

fn f(mut m: M):
    g(mut m, m)

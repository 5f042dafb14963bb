# Two arguments disagree about M.
# expect: E2304 at 14:17

fn f[M: model](m: M, n: M) -> int:
    return 1

model A:
    w: [] = zeros

model B:
    w: [] = zeros

fn g(a: A, b: B) -> int:
    return f(a, b)

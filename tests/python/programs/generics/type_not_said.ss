# No argument says what E is.
# expect: E2303 at 11:12

fn f[M: model, E: data](m: M) -> int:
    return 1

model A:
    w: [] = zeros

fn g(a: A) -> int:
    return f(a)

# A dataset where a model is wanted.
# expect: E2305 at 11:14

fn f[M: model](m: M) -> int:
    return 1

data R:
    x: []

fn g(d: Dataset[R]) -> int:
    return f(d)

# A record where a model is made for a model.
# expect: E2305 at 13:17

data R:
    x: []

model A:
    w: [] = zeros

model Wrapper[M: model]:
    inner: M

fn f(m: Wrapper[R], n: Wrapper[A]) -> int:
    return 1

# What meets the requirement calls the function that requires it.
# expect: E2314 at 9:12

model A:
    w: [] = zeros

fn f[M: model](m: M) -> []
    requires loss(m: M) -> []:
    return loss(m)

fn loss(a: A) -> []:
    return f(a)

fn g(a: A) -> []:
    return f(a)

# What is differentiated changes nothing.
# expect: E0701 at 11:29

model M:
    w: [] = zeros

fn g(mut m: M) -> []:
    return m.w

fn f(mut m: M):
    l, d = value_and_grad(g(mut m), wrt=m)

# A norm is clipped above 0.
# expect: E0503 at 9:22

model M:
    w: [] = zeros

fn f(m: M, x: [b]):
    l, mut g = value_and_grad(sum(x * m.w, over=b), wrt=m)
    clip_norm(mut g, 0.0)

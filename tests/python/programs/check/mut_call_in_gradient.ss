# Nothing changes in what is differentiated, whatever it is.
# expect: E0701 at 8:56

model M:
    w: [3] = zeros

fn f(m: M, mut n: M):
    l, g = value_and_grad(sum(m.w, over=3) * clip_norm(mut n, 1.0), wrt=m)

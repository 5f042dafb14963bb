# What an expression that is differentiated changes is `mut`, and the model that it is taken of too.
# expect: E0605 at 12:32
# expect: E0602 at 16:39

model M:
    w: [3] = ones

fn loss(mut m: M, like: M) -> []:
    return sum(m.w * like.w, over=3)

fn fixed(m: M, other: M):
    l, g = value_and_grad(loss(mut m, other), wrt=m)
    print(l)

fn twice(mut m: M):
    l, g = value_and_grad(loss(mut m, m), wrt=m)
    print(l)

# A part of what isn't `mut` can't be assigned.
# expect: E0605 at 9:5
# expect: E0605 at 13:9

model M:
    w: [3] = ones

fn f(m: M, x: [3]):
    m.w = x

fn g(mut m: Pair):
    for item in m.items:
        item.w = zeros[3]

model Pair:
    items: M * 2

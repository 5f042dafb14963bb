# A loop's variable can't be changed.
# expect: E0605 at 15:11

model B:
    w: [3] = zeros

model M:
    blocks: B * 2

fn g(mut b: B):
    return

fn f(mut m: M):
    for b in m.blocks:
        g(mut b)

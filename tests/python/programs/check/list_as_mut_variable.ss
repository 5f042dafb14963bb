# A list of sub-models isn't a value of its own yet.
# expect: E0901 at 12:9
# expect: E0901 at 13:13

model B:
    w: [3] = zeros

model M:
    blocks: B * 2

fn f(m: M):
    mut x = m.blocks
    a, c = (m.blocks, 1)

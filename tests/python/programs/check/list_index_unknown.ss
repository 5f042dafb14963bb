# A list is indexed by known numbers.
# expect: E0901 at 12:12
# expect: E0503 at 15:12

model B:
    w: [3] = zeros

model M:
    blocks: B * 2

fn f(m: M, i: int) -> [3]:
    return m.blocks[i].w

fn g(m: M) -> [3]:
    return m.blocks[2].w

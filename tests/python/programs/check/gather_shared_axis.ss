# An axis of the index that stays in the tensor too would stand twice; the second function names it anew.
# expect: E0403 at 5:22

fn f(x: [b v], i: int[b]) -> [b b]:
    return gather(x, i, over=v)

fn g(x: [b v], i: int[b]) -> [b]:
    return sum(gather(x, rearrange(i: k -> k), over=v), over=k)

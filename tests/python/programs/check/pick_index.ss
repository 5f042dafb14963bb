# Of each row one element is picked: the index has the tensor's axes without the one that is picked over.
# expect: E0405 at 8:20
# expect: E0401 at 11:20
# expect: E0301 at 14:20
# expect: E0405 at 17:20

fn f(x: [b n], i: int[b n]) -> [b]:
    return pick(x, i, over=n)

fn g(x: [b n], i: int[c]) -> [b]:
    return pick(x, i, over=n)

fn h(x: [b n], i: bool[b]) -> [b]:
    return pick(x, i, over=n)

fn k(x: [b n], i: int) -> [b]:
    return pick(x, i, over=n)

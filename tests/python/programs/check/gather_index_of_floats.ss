# An index is a tensor of whole numbers: neither floats nor truth values are.
# expect: E0301 at 6:22
# expect: E0301 at 9:22

fn f(x: [v d], i: [b]) -> [b d]:
    return gather(x, i, over=v)

fn g(x: [v d], i: bool[v]) -> [v d]:
    return gather(x, i, over=v)

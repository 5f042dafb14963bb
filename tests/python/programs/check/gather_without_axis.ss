# A gather says over which axis.
# expect: E0406 at 5:12

fn f(x: [v d], i: int[b]) -> [b d]:
    return gather(x, i)

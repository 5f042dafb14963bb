# A mistake in a generic function that is never called.
# expect: E0404 at 6:12

fn f[M: model](m: M, x: [b]) -> [b]
    requires loss(m: M) -> []:
    return loss(m) + 1

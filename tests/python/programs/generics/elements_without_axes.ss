# expect: E0308 at 2:19
fn f[F: float](x: F) -> F[]:
    return sum(x, over=s)

# expect: E0301 at 3:14
fn f[F: float](x: F[b]) -> F[b]:
    return F("one") * x

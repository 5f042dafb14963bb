# expect: E2302 at 2:9
fn f[F: floats](x: F[b]) -> F[b]:
    return x

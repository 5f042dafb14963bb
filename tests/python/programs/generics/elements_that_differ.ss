# What is fine for f32 alone isn't for every F.
# expect: E0310 at 4:12
fn f[F: float](x: F[b], y: [b]) -> F[b]:
    return x + y

# The elements of a function follow from its arguments.
# expect: E2302 at 3:17
fn f[F: float = f32](x: F[b]) -> F[b]:
    return x

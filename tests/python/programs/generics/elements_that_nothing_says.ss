# A host number is of no type of floats by itself.
# expect: E2303 at 7:12
fn half[F: float](x: F[]) -> F[]:
    return 0.5 * x

fn f() -> []:
    return half(1.0)

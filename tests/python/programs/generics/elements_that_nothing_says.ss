# A host number is of neither type of floats.
# expect: E2303 at 7:12
fn half[F: float](x: F[]) -> F[]:
    return 0.5 * x

fn f() -> []:
    return half(1.0)

# Behind a size with a default the elements are given by name.
# expect: E2305 at 6:37
model Scale[D, N = 1, F: float = f32]:
    w: F[D] = ones

fn f[F: float](x: F[3], m: Scale[3, F]) -> F[3]:
    return m.w * x

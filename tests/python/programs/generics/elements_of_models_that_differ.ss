# A model for other elements is another type.
# expect: E0310 at 7:12
model Scale[F: float = f32]:
    w: F[3] = ones

fn f(seed: int) -> Scale[f64]:
    return Scale(seed=seed)

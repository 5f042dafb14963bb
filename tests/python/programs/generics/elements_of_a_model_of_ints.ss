# A model's elements are floats.
# expect: E2305 at 6:17
model Scale[F: float = f32]:
    w: F[3] = ones

fn f(m: Scale[F=int]) -> [3]:
    return f32(m.w)

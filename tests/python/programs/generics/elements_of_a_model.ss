# A model's tensors are of its elements, and another function's are others.
# expect: E0310 at 9:22
model Scale[F: float = f32]:
    w: F[3] = ones
fn scaled[F: float](x: F[b 3], m: Scale[F]) -> F[b 3]:
    return x * m.w

fn f(x: [b 3], m: Scale[F=f64]) -> [b 3]:
    return scaled(x, m)

# Without a default the brackets say what a model's elements are.
# expect: E2302 at 6:9
model Scale[F: float]:
    w: F[3] = ones

fn f(m: Scale) -> [3]:
    return f32(m.w)

# Sizes and elements are different parameters.
# expect: E2305 at 6:18
model Scale[D, F: float = f32]:
    w: F[D] = ones

fn f(m: Scale[3, 64]) -> [3]:
    return m.w

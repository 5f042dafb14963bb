# The default of elements is one of the types of floats.
# expect: E2305 at 3:24
model Scale[F: float = f16]:
    w: F[3] = ones

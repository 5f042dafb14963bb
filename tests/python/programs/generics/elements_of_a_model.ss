# Functions are made for types of elements, models are not.
# expect: E2302 at 3:16
model Scale[F: float]:
    w: [3] = ones

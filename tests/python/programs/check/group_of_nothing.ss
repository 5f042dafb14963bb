# A group names at least one parameter; a buffer is none.
# expect: E0208 at 10:11
# expect: E0208 at 14:11

model Norm:
    weight: [3] = ones
    buffer mean: [3] = zeros

model M:
    group "norms.*": decay=false
    norm: Norm

model N:
    group "*.mean": frozen=true
    norm: Norm

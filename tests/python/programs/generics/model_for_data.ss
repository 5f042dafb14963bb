# A model is made for dims and models, not for data.
# expect: E2305 at 4:9

model A[E: data]:
    w: [] = zeros

# Only dims have defaults.
# expect: E2302 at 7:20

model Inner:
    w: [3] = zeros

model M[I: model = Inner]:
    inner: I

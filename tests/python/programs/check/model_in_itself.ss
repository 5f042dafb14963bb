# A model that contains itself.
# expect: E0309 at 4:7

model A:
    b: B

model B:
    a: A

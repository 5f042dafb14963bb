# A parameter has an initialiser.
# expect: E0301 at 5:5

model M:
    w: [3]

# What a parameter may begin with.
# expect: E0301 at 5:14

model M:
    w: [3] = xavier(1)

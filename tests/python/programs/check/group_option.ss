# What a group can say.
# expect: E0311 at 8:21
# expect: E0301 at 12:27
# expect: E0503 at 16:26

model A:
    weight: [3] = ones
    group "weight": deacy=false

model B:
    weight: [3] = ones
    group "weight": decay=0

model C:
    weight: [3] = ones
    group "weight": rate=-1

# What a buffer begins with.
# expect: E0301 at 9:18
# expect: E0301 at 12:27
# expect: E0301 at 15:27
# expect: E0503 at 18:26
# expect: E0301 at 21:24

model A:
    buffer mean: int = 0

model B:
    buffer count: int[] = 0.5

model C:
    buffer seen: bool[] = 1

model D:
    buffer many: int[] = 9007199254740993

model E:
    buffer mean: [3] = xavier(1)

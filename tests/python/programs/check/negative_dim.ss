# A size is at least 0.
# expect: E0503 at 4:9

dim A = 3 - 5

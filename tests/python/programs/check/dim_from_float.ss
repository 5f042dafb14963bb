# A dim is a whole number.
# expect: E0502 at 4:9

dim A = 1.5

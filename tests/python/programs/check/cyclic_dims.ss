# Dims by each other.
# expect: E0505 at 4:5

dim A = B
dim B = A

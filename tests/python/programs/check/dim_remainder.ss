# Dim arithmetic is exact.
# expect: E0501 at 5:9

dim A = 7
dim B = A / 2

# The path of a text is a string.
# expect: E0301 at 4:19

dim Lines = lines(12)

# A dim begins with an upper-case letter.
# expect: E0502 at 4:5

dim width = 3

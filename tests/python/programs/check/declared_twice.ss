# One name, two declarations.
# expect: E0202 at 5:7

dim A = 1
const A = 2

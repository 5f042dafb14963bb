# Only a generic function requires.
# expect: E2302 at 8:5

model M:
    w: [] = zeros

fn f(m: M) -> int
    requires loss(m: M) -> []:
    return 1

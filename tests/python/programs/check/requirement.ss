# Required declarations aren't built yet.
# expect: E0901 at 8:5

model M:
    w: [] = zeros

fn f(m: M) -> int
    requires loss(m: M) -> []:
    return 1

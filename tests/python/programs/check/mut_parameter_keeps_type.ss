# A mut parameter keeps its type: the caller gets it back.
# expect: E0301 at 8:5

model M:
    w: [] = zeros

fn f(mut m: M):
    m = 5

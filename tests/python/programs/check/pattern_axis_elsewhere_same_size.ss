# Also where the two axes are dims of one size.
# expect: E0408 at 8:27

dim Rows = 8
dim Cols = 8

fn f(x: [b Rows Cols]) -> [b Cols Rows]:
    return rearrange(x: b Cols Rows -> b Cols Rows)

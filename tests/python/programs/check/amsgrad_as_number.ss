# A flag is a truth value.
# expect: E0301 at 8:28

model M:
    w: [3] = zeros

fn f(m: M) -> Adam[M]:
    return Adam(m, amsgrad=1)

# A member that a model does not have.
# expect: E0303 at 8:14

model M:
    weight: [] = zeros

fn f(m: M) -> []:
    return m.weigth

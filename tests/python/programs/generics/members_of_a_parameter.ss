# Of a type parameter nothing is known but what is required.
# expect: E0303 at 5:14

fn f[M: model](m: M) -> []:
    return m.weight

# expect: E0407 at 5:36
# expect: E0407 at 8:24

fn f(x: [n n]) -> [n n]:
    return rearrange(x: n n -> n n n)

fn g(x: [n n]) -> [n n 2]:
    return repeat(x: n n -> n n 2)

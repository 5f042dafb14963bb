# expect: E0301 at 4:16

fn f(x: [b n], i: int[k]) -> [k b]:
    return x[n=i]

# An index names an axis of the tensor.
# expect: E0402 at 7:14
# expect: E0402 at 10:14
# expect: E0402 at 13:14

fn f(x: [b n]) -> [b]:
    return x[m=0]

fn g(x: []) -> []:
    return x[n=0]

fn h(x: [..s n]) -> [n]:
    return x[s=0]

# A running sum is one of numbers, along one axis that the tensor has.
# expect: E0310 at 8:19
# expect: E0407 at 11:12
# expect: E0402 at 14:27
# expect: E0402 at 17:27

fn f(x: bool[b n]) -> bool[b n]:
    return cumsum(x, over=n)

fn g(x: [b n]) -> [b n]:
    return cumsum(x, over=(b, n))

fn h(x: [b n]) -> [b n]:
    return cumsum(x, over=m)

fn k(x: [..s n]) -> [..s n]:
    return cumsum(x, over=s)

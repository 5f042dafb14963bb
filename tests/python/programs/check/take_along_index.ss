# The index is of whole numbers, and has the tensor's axes but for the one that is taken along.
# expect: E0301 at 9:26
# expect: E0405 at 12:26
# expect: E0401 at 15:26
# expect: E0402 at 18:34
# expect: E0301 at 21:23

fn f(x: [b n], i: [b m]) -> [b m]:
    return take_along(x, i, over=n)

fn g(x: [b n], i: int[m]) -> [b m]:
    return take_along(x, i, over=n)

fn h(x: [b n], i: int[c m]) -> [c m]:
    return take_along(x, i, over=n)

fn k(x: [b n], i: int[b m]) -> [b m]:
    return take_along(x, i, over=m)

fn l(x: float, i: int[b]) -> [b]:
    return take_along(x, i, over=b)

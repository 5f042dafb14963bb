# What is sorted is a tensor of numbers along a named axis, and the direction is a bool.
# expect: E0301 at 8:17
# expect: E0406 at 11:12
# expect: E0301 at 14:39
# expect: E0310 at 17:20

fn f(x: float) -> float:
    return sort(x, over=n)

fn g(x: [b n]) -> [b n]:
    return sort(x)

fn h(x: [b n]) -> [b n]:
    return sort(x, over=n, descending=1)

fn k(x: bool[n]) -> int[n]:
    return argsort(x, over=n)

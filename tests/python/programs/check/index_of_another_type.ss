# A place is a host int: neither a float nor a tensor, and `/` of numbers of the run gives a float.
# expect: E0301 at 8:16
# expect: E0301 at 11:16
# expect: E0301 at 14:16
# expect: E0301 at 17:12

fn f(x: [b n], i: float) -> [b]:
    return x[n=i]

fn g(x: [b n], i: int) -> [b]:
    return x[n=i/2]

fn h(x: [b n], label: int[b]) -> [b]:
    return x[n=label[b=0]]

fn k(i: int) -> int:
    return i[n=0]

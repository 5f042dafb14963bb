# A length that a run decides is an axis of its own: it is no axis of the signature, and agrees with no other.
# expect: E0404 at 7:12
# expect: E0401 at 10:16
# expect: E0402 at 13:32

fn f(x: [b n], i: int, j: int) -> [b n]:
    return x[n=i..j]

fn g(x: [b n], i: int, j: int, k: int) -> [b]:
    return sum(x[n=i..j] + x[n=i..k], over=n)

fn h(x: [b n], i: int, j: int) -> [b]:
    return sum(x[n=i..j], over=k)

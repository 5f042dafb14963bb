# Truth values are equal or not; they have no order. Strings aren't compared yet.
# expect: E0310 at 8:12
# expect: E0310 at 11:12
# expect: E0301 at 14:12
# expect: E0901 at 17:12

fn f(x: bool[b], y: bool[b]) -> bool[b]:
    return x < y

fn g(x: bool, y: bool) -> bool:
    return x >= y

fn h(x: bool, y: int) -> bool:
    return x == y

fn k(x: str, y: str) -> bool:
    return x == y

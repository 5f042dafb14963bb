# A concat says along which axis, by a name that one of its parts has.
# expect: E0406 at 12:12
# expect: E0402 at 15:30
# expect: E0403 at 18:30
# expect: E0302 at 21:30
# expect: E0311 at 24:25
# expect: E0402 at 27:12
# expect: E0302 at 30:12
# expect: E0604 at 33:19

fn f(x: [b n], y: [b n]) -> [b 2*n]:
    return concat(x, y)

fn g(x: [b n], y: [b n]) -> [b 2*n]:
    return concat(x, y, over=k)

fn h(x: [n n], y: [n n]) -> [n n]:
    return concat(x, y, over=n)

fn k(x: [b n], y: [b m]) -> [b n+m]:
    return concat(x, y, over=(n, m, m))

fn l(x: [b n], y: [b n]) -> [b 2*n]:
    return concat(x, y, axis=n)

fn m(x: [..s n], y: [..s n]) -> [..s n]:
    return concat(x, y, over=s)

fn o() -> [2]:
    return concat(over=n)

fn p(mut x: [n]) -> [2*n]:
    return concat(mut x, x, over=n)

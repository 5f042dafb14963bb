# Parts agree in all axes but the joined one.
# expect: E0401 at 10:22
# expect: E0405 at 13:22
# expect: E0401 at 16:30
# expect: E0310 at 19:22
# expect: E0301 at 22:22
# expect: E0404 at 25:12

fn f(x: [b n], y: [c n]) -> [b 2*n]:
    return concat(x, y, over=n)

fn g(x: [b n], y: [b]) -> [b n]:
    return concat(x, y, over=n)

fn h(x: [b n], y: [n b]) -> [b n]:
    return concat(x, y, over=(n, n))

fn k(x: [b n], y: int[b n]) -> [b 2*n]:
    return concat(x, y, over=n)

fn l(x: [b n]) -> [b n]:
    return concat(x, 1.0, over=n)

fn m(x: [b n], y: [b m]) -> [b m]:
    return concat(x, y, over=n)

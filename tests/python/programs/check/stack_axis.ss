# A stack has a new axis of as many places as there are parts, which have the same axes.
# expect: E0406 at 15:12
# expect: E0401 at 18:29
# expect: E0401 at 21:29
# expect: E0403 at 24:29
# expect: E0401 at 27:21
# expect: E0407 at 30:36
# expect: E0401 at 33:29
# expect: E0406 at 36:36
# expect: E0302 at 39:24

dim Three = 3

fn f(x: [b n], y: [b n]) -> [2 b n]:
    return stack(x, y)

fn g(x: [b n], y: [b n]) -> [3 b n]:
    return stack(x, y, over=3)

fn h(x: [b n], y: [b n]) -> [Three b n]:
    return stack(x, y, over=Three)

fn k(x: [b 2], y: [b 2]) -> [2 b 2]:
    return stack(x, y, over=2)

fn l(x: [b n], y: [b m]) -> [2 b n]:
    return stack(x, y, over=2)

fn m(x: [b n], y: [b n]) -> [b n]:
    return stack(x, y: b n, b n -> b n)

fn o(x: [b n], y: [b m]) -> [2 b n]:
    return stack(x, y: b n, b m -> 2 b n)

fn p(x: [b n], y: [b n]) -> [2 b]:
    return stack(x, y: b n, b n -> 2 b)

fn q(x: [b n], y: [b n]) -> [2 b n]:
    return stack(x, y: b n -> 2 b n)

# A split unpacks the one factor, of a known number of places, that its right side lacks.
# expect: E0407 at 11:32
# expect: E0409 at 14:21
# expect: E0407 at 17:32
# expect: E0302 at 20:5
# expect: E0503 at 24:21
# expect: E0503 at 27:21
# expect: E0407 at 30:12

fn f(x: [b 3*n]) -> [b 3*n]:
    return split(x: b (3 n) -> b (3 n))

fn g(x: [b n]) -> [b]:
    return split(x: b n -> b)

fn h(x: [b 3*n]) -> [n]:
    return split(x: b (3 n) -> n)

fn k(x: [b 3*n]) -> [b n]:
    p, q = split(x: b (3 n) -> b n)
    return p

fn l(x: [b 0 n]) -> [b n]:
    return split(x: b 0 n -> b n)

fn m(x: [b 5000 n]) -> [b n]:
    return split(x: b 5000 n -> b n)

fn o(x: [b 3*n]) -> [b n]:
    return split(x)

# Every operand of an einsum has a pattern and floats of one type.
# expect: E0310 at 8:28
# expect: E0302 at 11:25
# expect: E0203 at 13:29
# expect: E0401 at 17:32

fn f(x: [a b], y: [b c], z: f64[c]) -> [a]:
    return einsum(x, y, z: a b, b c, c -> a)

fn g(x: [a b], y: [b c]) -> [a c]:
    return einsum(x, y: a b -> a)

fn h(x: [a b], y: [b c]) -> [a d]:
    return einsum(x, y: a b, b c -> a d)

fn k(x: [a b], y: [c e]) -> [a]:
    return einsum(x, y: a i, c i -> a)

# An axis that stands twice in an operand's pattern has one size; only einsum takes the places where both are the same.
# expect: E0407 at 8:27
# expect: E0401 at 11:24
# expect: E0408 at 14:24
# expect: E0404 at 17:12

fn f(x: [n n]) -> [n]:
    return rearrange(x: n n -> n)

fn g(x: [n m]) -> [n]:
    return einsum(x: i i -> i)

fn h(x: [n m]) -> [n]:
    return einsum(x: n n -> n)

fn k(x: [n n]) -> [n]:
    return einsum(x: i i -> i)

# expect: E0404 at 5:12
# `rearrange(n n -> n n)` behind it gives the second axis the name back.

fn gram(x: [n d]) -> [n n]:
    return einsum(x, x: n d, m d -> n m)

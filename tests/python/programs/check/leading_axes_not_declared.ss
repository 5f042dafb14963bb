# A pattern knows only the leading axes of its function's signature.
# expect: E0203 at 5:25

fn f(x: [a b n m]) -> [a b m n]:
    return rearrange(x: ..s n m -> ..s m n)

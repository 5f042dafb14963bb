# Factors whose product is another size.
# expect: E0501 at 8:27

dim T = 16
dim H = 3

fn f(x: [b T]) -> [b H 5]:
    return rearrange(x: b (H 5) -> b H 5)

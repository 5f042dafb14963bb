# A product of unknown factors can be opened in many ways.
# expect: E0409 at 7:24

dim T = 16

fn f(x: [b T]) -> [b T]:
    y = rearrange(x: b (p q) -> b q p)
    return x

# A factor that does not divide.
# expect: E0501 at 7:24

dim T = 16

fn f(x: [b T]) -> [b T]:
    y = rearrange(x: b (p q) -> b q p, p=3)
    return x

# A factor that the pattern doesn't open.
# expect: E0311 at 7:45

dim T = 16

fn f(x: [b T]) -> [b T]:
    y = rearrange(x: b (p q) -> b q p, p=2, r=3)
    return x

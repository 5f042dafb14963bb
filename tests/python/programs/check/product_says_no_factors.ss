# A product doesn't say its factors.
# expect: E2301 at 8:14

fn f(x: [b h*w]) -> [b]:
    return sum(x, over=h*w)

fn g(x: [b (h w)]) -> [b]:
    return f(x)

# Padding names its axes, and says sizes.
# expect: E0302 at 12:21
# expect: E0402 at 15:19
# expect: E0502 at 18:25
# expect: E0503 at 21:25
# expect: E0406 at 24:12
# expect: E0301 at 27:35
# expect: E0302 at 30:19
# expect: E0301 at 33:16

fn f(x: [b n]) -> [b n+2]:
    return pad(x, n=1)

fn g(x: [b n]) -> [b n+2]:
    return pad(x, m=(1, 1))

fn h(x: [b n], i: int) -> [b n]:
    return pad(x, n=(1, i))

fn k(x: [b n]) -> [b n]:
    return pad(x, n=(1, -1))

fn l(x: [b n]) -> [b n]:
    return pad(x)

fn m(x: int[b n]) -> int[b n+1]:
    return pad(x, n=(0, 1), value=0.5)

fn p(x: [b n]) -> [b n+2]:
    return pad(x, (1, 1))

fn q(x: float) -> [2]:
    return pad(x, n=(1, 1))

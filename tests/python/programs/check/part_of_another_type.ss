# A part keeps its type and axes.
# expect: E0401 at 13:5
# expect: E0310 at 16:5
# expect: E0301 at 19:5
# expect: E0303 at 22:7
# expect: E0301 at 25:5

model M:
    w: [3] = ones
    items: N * 2

fn axes(mut m: M, x: [4]):
    m.w = x

fn elements(mut m: M, x: f64[3]):
    m.w = x

fn model(mut m: M, n: N):
    m.w = n

fn unknown(mut m: M, x: [3]):
    m.v = x

fn list(mut m: M, n: N):
    m.items = n

model N:
    v: [3] = ones

# A tensor that a call changes is marked at the call, given once, and is no host number.
# expect: E0601 at 15:10
# expect: E0605 at 18:10
# expect: E0604 at 21:17
# expect: E0301 at 25:9
# expect: E0401 at 29:17

fn fill(mut x: [b n], v: [n]):
    x[b=0] = v

fn one(mut x: []):
    x = f32(1.0)

fn f(mut x: [b n], v: [n]):
    fill(x, v)

fn g(x: [b n], v: [n]):
    fill(mut x, v)

fn k(mut x: [b n], mut y: [n]):
    fill(mut x, mut y)

fn l() -> float:
    mut y = 0.0
    one(mut y)
    return y

fn m(mut x: [b n], v: [b]):
    fill(mut x, v)

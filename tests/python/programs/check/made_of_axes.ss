# Tensors made of axes have their own number of them, and stand in brackets.
# expect: E0405 at 10:12
# expect: E0405 at 13:12
# expect: E0405 at 16:12
# expect: E0306 at 19:12
# expect: E0301 at 22:12
# expect: E0203 at 24:11

fn f(x: [n]) -> int[n]:
    return arange[n n]

fn g(x: [n]) -> bool[n n]:
    return causal[n]

fn h(x: [n]) -> [n n n]:
    return eye[n n n]

fn k(x: [n]) -> int[n]:
    return arange(n)

fn l(x: [n]) -> int[n]:
    return arange

fn m() -> int[n]:
    return arange[n]

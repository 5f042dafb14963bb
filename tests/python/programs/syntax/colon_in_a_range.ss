# expect: E0120 at 4:17

fn f(y: [n]) -> [2]:
    return y[n=0:2]

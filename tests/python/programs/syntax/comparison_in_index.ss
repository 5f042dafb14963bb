# expect: E0120 at 4:16

fn f(y: [n]) -> []:
    return y[n == 0]

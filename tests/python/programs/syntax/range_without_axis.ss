# expect: E0120 at 4:14

fn f(y: [n]) -> []:
    return y[1..3]

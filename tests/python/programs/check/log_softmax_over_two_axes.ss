# expect: E0407 at 4:12

fn f(x: [b n]) -> [b n]:
    return log_softmax(x, over=(b, n))

# expect: E0503 at 4:43

fn f(x: [b]) -> []:
    return variance(x, over=b, correction=-1)

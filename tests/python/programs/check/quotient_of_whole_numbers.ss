# expect: E0310 at 4:12

fn halves(x: int[n]) -> [n]:
    return x / 2

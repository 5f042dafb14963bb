# Leading axes stand first.
# expect: E0407 at 4:9

fn f(x: [n ..s]) -> [n]:
    return x

# expect: E0107 at 3:14

fn f(x: [b]) {
    return x

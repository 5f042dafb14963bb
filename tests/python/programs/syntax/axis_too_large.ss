# expect: E0110 at 3:10

fn f(x: [99999999999999999999 n]):
    return

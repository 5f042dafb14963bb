# expect: E0123 at 4:5

fn f(mut x: [n]):
    x[n=0] = 3

# expect: E0121 at 4:5

fn f():
    let x = 1

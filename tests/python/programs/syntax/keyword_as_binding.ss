# expect: E0116 at 4:5

fn f():
    for = 3

# expect: E0121 at 5:9

fn f():
    while true:
        break

# expect: E0127 at 4:9

fn f(m: M):
    for mut i in 0..3:
        print(i)

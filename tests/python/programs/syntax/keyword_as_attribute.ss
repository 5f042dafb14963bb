# expect: E0116 at 4:13

fn f(m: M):
    print(m.or)

# expect: E0102 at 4:11

fn f():
    print("hello)

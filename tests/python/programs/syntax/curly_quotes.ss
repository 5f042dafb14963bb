# expect: E0122 at 4:11

fn f():
    print(“hello”)

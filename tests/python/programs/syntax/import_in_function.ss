# expect: E0129 at 4:5

fn f():
    import a

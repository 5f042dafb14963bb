# A function without a result gives no value.
# expect: E0301 at 9:9
# expect: E0301 at 12:12

fn g():
    return

fn f():
    x = g()

fn h():
    return g()

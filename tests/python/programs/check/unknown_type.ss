# A type that is not there.
# expect: E0308 at 4:9

fn f(x: Modle):
    return

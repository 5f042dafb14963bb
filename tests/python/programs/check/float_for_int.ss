# A float doesn't become an int by itself.
# expect: E0301 at 5:12

fn f(x: float) -> int:
    return x

# A bool is no number.
# expect: E0301 at 5:12

fn f(x: bool) -> int:
    return x + 1

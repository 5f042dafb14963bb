# expect: E0105 at 5:7

fn f() -> int:
    x = 1
      y = 2
    return x

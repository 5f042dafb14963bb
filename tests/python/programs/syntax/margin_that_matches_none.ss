# expect: E0104 at 6:7

fn f(x: int) -> int:
    if x > 0:
            return 1
      return 2

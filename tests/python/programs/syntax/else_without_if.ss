# expect: E0128 at 5:5

fn f(x: int) -> int:
    x = 1
    else:
        return 2

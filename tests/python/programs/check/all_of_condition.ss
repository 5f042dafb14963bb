# expect: E0301 at 4:16

fn f(x: bool) -> bool:
    return all(x, over=b)

# expect: E0301 at 4:16

fn f() -> float:
    return sin("x")

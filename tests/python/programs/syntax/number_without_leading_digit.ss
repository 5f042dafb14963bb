# expect: E0109 at 4:12

fn f() -> float:
    return .5

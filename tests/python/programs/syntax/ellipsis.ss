# expect: E0120 at 3:10

fn f(y: [... n]) -> int:
    return 1

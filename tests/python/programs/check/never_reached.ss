# Statements behind a return are warned about.
# expect: E0312 at 6:5

fn f(x: int) -> int:
    return x
    print(x)

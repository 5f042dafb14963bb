# expect: E0121 at 4:11

fn f(x: int):
    print(f"{x}")

# expect: E0121 at 4:41

fn f() -> int:
    return load("a.pt", n=int, rename={a="b"})

# expect: E0129 at 4:5

fn f(x: int) -> int:
    fn g(y: int) -> int:
        return y
    return g(x)

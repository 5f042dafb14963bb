# A declared result that is not returned.
# expect: E0307 at 4:1

fn f(x: int) -> int:
    if x > 0:
        return 1

# A return inside of a loop isn't built yet.
# expect: E0901 at 7:13

fn f(n: int) -> int:
    for i in 0..n:
        if i == 3:
            return i
    return 0

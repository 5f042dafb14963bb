# A name of the outer block bound with mut once more.
# expect: E0202 at 7:13

fn f(n: int) -> int:
    mut y = 1
    for i in 0..n:
        mut y = i
    return y

# Between sizes `/` is exact, as in axes.
# expect: E0501 at 7:23

dim D = 3

fn f(x: [b D]) -> [b]:
    return sum(x[D=0..D/2], over=b)

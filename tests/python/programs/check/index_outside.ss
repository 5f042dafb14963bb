# What is surely outside of an axis is told at once; nothing is counted from the end, and nothing is cut off.
# expect: E0503 at 13:14
# expect: E0503 at 16:14
# expect: E0503 at 19:14
# expect: E0503 at 22:14
# expect: E0503 at 25:18
# expect: E0503 at 28:14
# expect: E0503 at 33:19

dim D = 3

fn known(x: [b D]) -> [b]:
    return x[D=3]

fn end(x: [b n]) -> [b]:
    return x[n=n]

fn negative(x: [b n]) -> [b]:
    return x[n=-1]

fn from_the_end(x: [b n]) -> [b 2]:
    return x[n=-2..]

fn backwards(x: [b n]) -> [b]:
    return sum(x[n=3..1], over=b)

fn beyond(x: [b n]) -> [b n+1]:
    return x[n=0..n+1]

fn in_a_loop(x: [b n]) -> [b]:
    mut s = zeros[b]
    for t in 0..n:
        s = s + x[n=t+n]
    return s

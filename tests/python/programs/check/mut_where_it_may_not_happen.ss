# An expression that is evaluated any number of times changes nothing.
# expect: E0701 at 12:17
# expect: E0701 at 14:23

model M:
    w: [3] = zeros

fn g(mut m: M) -> bool:
    return true

fn f(mut m: M):
    while g(mut m):
        print(1)
    if true and g(mut m):
        print(2)

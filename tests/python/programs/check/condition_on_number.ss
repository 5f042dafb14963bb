# A number is no condition.
# expect: E0301 at 5:11

fn f(n: int):
    while n:
        print(n)

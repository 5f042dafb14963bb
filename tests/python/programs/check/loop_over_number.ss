# A loop goes over a range.
# expect: E0301 at 5:14

fn f(n: int):
    for i in n:
        print(i)

# A range ends with whole numbers.
# expect: E0301 at 5:17

fn f(n: float):
    for i in 0..n:
        print(i)

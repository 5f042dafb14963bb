# expect: E0121 at 3:1

def f(x):
    return x

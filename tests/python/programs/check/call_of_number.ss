# What is no function can not be called.
# expect: E0306 at 7:12

const Rate = 0.1

fn f() -> float:
    return Rate(1)

# A tensor with axes is no condition.
# expect: E0301 at 5:8

fn f(x: [n]) -> int:
    if x > 0.0:
        return 1
    return 2

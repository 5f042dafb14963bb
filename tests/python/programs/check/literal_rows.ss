# The rows of a tensor that is written out have one length, and hold something.
# expect: E0401 at 9:21
# expect: E0405 at 12:21
# expect: E0405 at 15:21
# expect: E0503 at 18:12
# expect: E0503 at 21:12

fn f() -> [2]:
    return [[1, 2], [3]]

fn g() -> [2]:
    return [[1, 2], 3]

fn h() -> [2]:
    return [[1, 2], [[3, 4]]]

fn k() -> [0]:
    return []

fn l() -> [2 0]:
    return [[], []]

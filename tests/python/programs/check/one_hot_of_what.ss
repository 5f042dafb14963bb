# one_hot takes whole numbers and the axis of the classes, which they lack.
# expect: E0301 at 9:20
# expect: E0406 at 12:12
# expect: E0403 at 15:32
# expect: E0203 at 18:32
# expect: E0203 at 21:32

fn f(label: [n]) -> [n 3]:
    return one_hot(label, over=3)

fn g(label: int[n]) -> [n 3]:
    return one_hot(label)

fn h(label: int[n]) -> [n n]:
    return one_hot(label, over=n)

fn k(label: int[n]) -> [n 3]:
    return one_hot(label, over=k)

fn l(label: int[n]) -> [n 3]:
    return one_hot(label, over="n")

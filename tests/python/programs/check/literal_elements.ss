# Its elements are numbers, or truth values, of one type.
# expect: E0310 at 10:16
# expect: E0310 at 13:16
# expect: E0310 at 16:16
# expect: E0301 at 19:13
# expect: E0301 at 22:13
# expect: E0310 at 25:16

fn f() -> [2]:
    return [1, true]

fn g(x: f64[], y: []) -> [2]:
    return [x, y]

fn h(x: int[]) -> [2]:
    return [x, 0.5]

fn k(x: [n]) -> [2]:
    return [x, 0.5]

fn l() -> [1]:
    return ["a"]

fn m(x: bool[]) -> bool[2]:
    return [x, 1]

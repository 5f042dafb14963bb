# expect: E0130 at 4:17

fn f(mut x: [b n]) -> [n b]:
    return turn(mut x, b n -> n b)

# A mut variable of an outer block keeps its type.
# expect: E0301 at 7:9

fn f(x: [b]) -> [b]:
    mut y = x
    for i in 0..3:
        y = i
    return x

# A mut variable of an outer block keeps its axes, in their order.
# expect: E0401 at 7:9

fn f(x: [b n], k: int) -> [b n]:
    mut y = x
    for i in 0..k:
        y = zeros[n b]
    return y

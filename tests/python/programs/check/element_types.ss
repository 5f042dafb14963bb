# Nothing widens or narrows by itself.
# expect: E0310 at 5:12

fn f(x: [b], y: f64[b]) -> [b]:
    return x + y

# No parameter binds an axis of the result.
# expect: E0203 at 4:17

fn f(x: [b]) -> [b n]:
    return x

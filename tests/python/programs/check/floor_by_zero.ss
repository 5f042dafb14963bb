# An axis divided by nothing.
# expect: E0501 at 6:18

dim None = 0

fn f(x: [n]) -> [n//None]:
    return zeros[n//None]

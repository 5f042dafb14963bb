# Exponents meet by name, as for `+`.
# expect: E0401 at 5:12

fn f(x: [b], y: [n]) -> [b n]:
    return x ** y

# A sum of two axes is an outer product by accident.
# expect: E0401 at 5:12

fn f(x: [b], y: [d]) -> [b]:
    return x + y

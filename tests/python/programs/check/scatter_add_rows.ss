# The rows have the index's axes, then those of the tensor but the one that they are added along; and its type.
# expect: E0405 at 9:27
# expect: E0401 at 12:27
# expect: E0310 at 15:27
# expect: E0301 at 18:33
# expect: E0310 at 21:24

fn f(x: [v d], rows: [d], i: int[b]) -> [v d]:
    return scatter_add(x, rows, i, over=v)

fn g(x: [v d], rows: [b v], i: int[b]) -> [v d]:
    return scatter_add(x, rows, i, over=v)

fn h(x: [v d], rows: f64[b d], i: int[b]) -> [v d]:
    return scatter_add(x, rows, i, over=v)

fn k(x: [v d], rows: [b d], i: [b]) -> [v d]:
    return scatter_add(x, rows, i, over=v)

fn l(x: bool[v d], rows: bool[b d], i: int[b]) -> bool[v d]:
    return scatter_add(x, rows, i, over=v)

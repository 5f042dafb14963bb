# Datasets are put together with datasets.
# expect: E0301 at 8:19

data R:
    x: [3]

fn f(d: Dataset[R], x: [b 3]):
    e = concat(d, x)
    print(e.count)

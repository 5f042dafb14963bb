# A dataset is filtered by what stands over its own rows.
# expect: E0401 at 8:19

data R:
    label: int

fn f(d: Dataset[R], e: Dataset[R]):
    g = filter(d, e.all.label < 5)
    print(g.count)

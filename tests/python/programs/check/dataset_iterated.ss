# A dataset is iterated in batches.
# expect: E0301 at 8:14

data R:
    x: [3]

fn f(d: Dataset[R]):
    for r in d:
        print(1)

# A part is no more than all.
# expect: E0503 at 8:28

data R:
    x: [3]

fn f(d: Dataset[R]):
    a, b = random_split(d, 1.5)

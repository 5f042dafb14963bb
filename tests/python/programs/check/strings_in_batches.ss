# A batch with strings isn't built yet.
# expect: E0901 at 8:9

data R:
    x: [3]
    name: str

fn f(d: Dataset[R]):
    return

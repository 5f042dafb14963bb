# A loop begins at one of the examples.
# expect: E0503 at 8:36

data R:
    x: [3]

fn f(d: Dataset[R]):
    for b in d |> batches(4, start=-1):
        print(b)

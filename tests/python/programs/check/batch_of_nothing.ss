# A batch has at least one example.
# expect: E0503 at 8:27

data R:
    x: [3]

fn f(d: Dataset[R]):
    for b in d |> batches(0):
        print(1)

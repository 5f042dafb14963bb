# A function that takes a dataset samples it itself.
# expect: E0301 at 11:7

data Window:
    ids: int[8]

fn g(d: Dataset[Window]):
    print(d.count)

fn f(d: Dataset[Window]):
    g(d |> sample(4, 0))

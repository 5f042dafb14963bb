# Parts are of datasets.
# expect: E0301 at 8:14

data Window:
    ids: int[8]

fn f(d: Dataset[Window]):
    for b in d |> batches(4) |> take(2):
        print(1)

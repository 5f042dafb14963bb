# A number of examples is at least 0.
# expect: E0503 at 8:22

data Window:
    ids: int[8]

fn f(d: Dataset[Window]):
    print((d |> take(-1)).count)

# What is in an order already isn't sampled.
# expect: E0901 at 8:14

data Window:
    ids: int[8]

fn f(d: Dataset[Window]):
    for b in d |> shuffle(1) |> sample(4, 1) |> batches(2):
        print(1)

# What is in an order already isn't split: the parts would be datasets.
# expect: E0301 at 8:25

data Window:
    ids: int[8]

fn f(d: Dataset[Window]):
    a, b = random_split(d |> shuffle(1), 0.5)

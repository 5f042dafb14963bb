# There is a weight for each example.
# expect: E0401 at 8:41

data R:
    x: [3]

fn f(d: Dataset[R], w: [n]):
    for b in d |> sample(16, 0, weights=w) |> batches(4):
        print(1)

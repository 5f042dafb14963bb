# A function that takes a dataset shuffles it itself.
# expect: E0301 at 12:7

data R:
    x: [3]

fn g(d: Dataset[R]):
    for b in d |> shuffle(1) |> batches(2):
        print(1)

fn f(d: Dataset[R]):
    g(d |> shuffle(3))

# All examples at once are the dataset's own.
# expect: E0303 at 9:17

data R:
    x: [3]

fn f(d: Dataset[R]):
    o = d |> shuffle(1)
    print(sum(o.all.x, over=(rows, 3)))

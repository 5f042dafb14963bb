# Each dataset has rows of its own.
# expect: E0401 at 8:16

data R:
    x: [3]

fn f(d: Dataset[R], e: Dataset[R]) -> [3]:
    return sum(d.all.x - e.all.x, over=rows)

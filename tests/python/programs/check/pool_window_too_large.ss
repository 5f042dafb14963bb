# A window that doesn't fit.
# expect: E0503 at 5:12

fn f(x: [b 4]) -> [b 0]:
    return average_pool(x, over=4, size=5)

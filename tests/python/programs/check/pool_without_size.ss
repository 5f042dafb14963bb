# Windows have a size.
# expect: E0302 at 5:12

fn f(x: [b n]) -> [b n//2]:
    return max_pool(x, over=n)

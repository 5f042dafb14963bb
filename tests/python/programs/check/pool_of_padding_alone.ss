# No window is all padding.
# expect: E0503 at 5:48

fn f(x: [b n]) -> [b (n+2)//2+1]:
    return max_pool(x, over=n, size=2, padding=2)

# Rounding differs: (n+1)//2 is one more than n//2 where n is odd.
# expect: E0404 at 5:12

fn f(x: [n]) -> [n//2]:
    return zeros[(n+1)//2]

# Windows move along axes of the operand.
# expect: E0402 at 5:29

fn f(x: [b n], y: [m]) -> [b n//2]:
    return max_pool(x, over=m, size=2)

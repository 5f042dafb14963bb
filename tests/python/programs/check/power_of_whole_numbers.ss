# Whole numbers have repeated products, by an integer literal; another exponent gives no whole number.
# expect: E0310 at 5:12

fn f(x: int[b], k: int) -> int[b]:
    return x ** k

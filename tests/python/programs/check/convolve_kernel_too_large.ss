# A kernel that doesn't fit into the padded axis.
# expect: E0503 at 5:12

fn f(x: [b 3 4 w], k: [8 3 7 1]) -> [b 8 0 w]:
    return convolve(x, k, over=(4, w), padding=(1, 0))

# A softmax says over which axis.
# expect: E0406 at 5:12

fn f(x: [b n v]) -> [b n v]:
    return softmax(x)

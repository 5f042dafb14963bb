# A group is not another group of the same size.
# expect: E0404 at 8:12

dim H = 2
dim N = 2

fn f(x: [b (H N)]) -> [b (N H)]:
    return x

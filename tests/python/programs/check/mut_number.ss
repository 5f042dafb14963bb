# Host numbers and batches are no `mut` parameters yet.
# expect: E0901 at 8:6
# expect: E0901 at 11:6

data Point:
    x: [2]

fn f(mut x: int):
    x = 1

fn g(mut batch: Point[b]):
    print(batch.x)

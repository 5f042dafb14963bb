# A prediction with an axis of one and a target without: nothing is stretched into a matrix.
# expect: E0404 at 8:12
# expect: E0405 at 11:16

dim One = 1

fn mse(pred: [b One], y: [b]) -> []:
    return mean((pred - y) ** 2, over=b)

fn g(pred: [b One], y: [b]) -> []:
    return mse(y, pred)

# expect: E0304 at 5:12
import shapescript.std.loss as loss

fn f(x: [b], y: [b], mask: int[b]) -> []:
    return loss.mse(x, y, mask)

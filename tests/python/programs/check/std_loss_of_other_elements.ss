# expect: E0310 at 5:28
import shapescript.std.loss as loss

fn f(x: [b], y: f64[b]) -> [b]:
    return loss.l1_each(x, y)

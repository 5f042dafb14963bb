# expect: E0401 at 5:28
import shapescript.std.loss as loss

fn f(x: [b], y: [n]) -> []:
    return loss.l1_each(x, y) |> mean(over=b)

# expect: E0302 at 5:12
import shapescript.std.loss as loss

fn f(logs: [b n c], target: int[b k]) -> []:
    return loss.ctc(logs, target)

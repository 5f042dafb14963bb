# The examples' axis stands first.
# expect: E0401 at 6:27
import shapescript.std.loss as loss

fn f(logs: [n b c], target: int[b k], inputs: int[b], labels: int[b]) -> []:
    return loss.ctc(logs, target, inputs, labels)

# expect: E2301 at 5:19
import shapescript.std.metric as metric

fn f(logits: [b c], label: int[b]) -> int:
    right, seen = metric.top_hits(logits, label)
    return right

# expect: E0406 at 5:12
dim C = 5

fn f(logits: [b n C], label: int[b]) -> float:
    return accuracy(logits, label)

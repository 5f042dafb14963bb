# A weight for each class, not for each row.
# expect: E0405 at 6:48
dim C = 5

fn f(logits: [b C], label: int[b], weight: [b C]) -> []:
    return cross_entropy(logits, label, weight=weight)

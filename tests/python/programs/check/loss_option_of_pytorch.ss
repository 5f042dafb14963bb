# expect: E0311 at 5:41
dim C = 5

fn f(logits: [b C], label: int[b]) -> []:
    return cross_entropy(logits, label, label_smoothing=0.1)

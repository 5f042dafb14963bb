# expect: E0503 at 5:51
dim C = 5

fn f(logits: [b C], label: int[b]) -> []:
    return cross_entropy(logits, label, smoothing=1.1)

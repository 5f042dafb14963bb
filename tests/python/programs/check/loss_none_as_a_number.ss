# expect: E0404 at 5:12
dim C = 5

fn f(logits: [b C], label: int[b]) -> []:
    return cross_entropy(logits, label, reduction="none")

# expect: E0310 at 5:46
dim C = 5

fn f(logits: [b C], label: int[b], mask: int[b]) -> []:
    return cross_entropy(logits, label, mask=mask)

# expect: E0301 at 5:46
dim C = 5

fn f(logits: [b C], label: int[b]) -> []:
    return cross_entropy(logits, label, mask="padding")

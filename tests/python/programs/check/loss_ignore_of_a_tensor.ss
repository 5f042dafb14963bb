# expect: E0301 at 5:48
dim C = 5

fn f(logits: [b C], label: int[b], skip: int[b]) -> []:
    return cross_entropy(logits, label, ignore=skip)

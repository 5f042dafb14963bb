# expect: E0401 at 6:48
dim C = 5
dim D = 5

fn f(logits: [b C], label: int[b], weight: [D]) -> []:
    return cross_entropy(logits, label, weight=weight)

# expect: E0310 at 5:48
dim C = 5

fn f(logits: [b C], label: int[b], weight: f64[C]) -> []:
    return cross_entropy(logits, label, weight=weight)

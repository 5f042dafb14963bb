# The reduction decides the result's type, so the program says it.
# expect: E0301 at 6:51
dim C = 5

fn f(logits: [b C], label: int[b], how: str) -> []:
    return cross_entropy(logits, label, reduction=how)

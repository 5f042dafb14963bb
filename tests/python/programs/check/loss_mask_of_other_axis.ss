# The mask is one of rows.
# expect: E0401 at 6:12
dim C = 5

fn f(logits: [b C], label: int[b], mask: bool[b C]) -> []:
    return cross_entropy(logits, label, mask=mask)

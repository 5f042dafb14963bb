# expect: E0311 at 5:29
dim C = 5

fn f(logs: [b C], label: int[b]) -> []:
    return nll(logs, label, smoothing=0.1)

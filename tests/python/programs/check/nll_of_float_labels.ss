# expect: E0301 at 5:22
dim C = 5

fn f(logs: [b C], label: [b]) -> []:
    return nll(logs, label)

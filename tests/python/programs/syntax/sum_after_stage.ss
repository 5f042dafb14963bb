# expect: E0118 at 4:22

fn f(x: [b n]) -> [b n]:
    return x |> relu + 1

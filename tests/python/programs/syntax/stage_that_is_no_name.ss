# expect: E0118 at 4:17

fn f(x: [b n]) -> [b n]:
    return x |> (relu)

# expect: E0118 at 4:23

fn f(x: [b n]) -> [n]:
    return x |> relu()[b=0]

# expect: E0118 at 4:14

fn f(x: [b n]) -> [b n]:
    return x |>
        relu

# expect: E0119 at 4:31

fn f(x: [b n]) -> [b n]:
    return x |> rearrange(b (h, w) -> b h w)

# Two axes of a signature are different, whatever their sizes in a run.
# expect: E0401 at 7:27

dim D = 4

fn f(q: [b n D], k: [b m D]) -> [b n m]:
    return einsum(q, k: b m D, b n D -> b n m)

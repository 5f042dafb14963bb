# A repeat keeps every axis, and the sizes of new ones are known or given.
# expect: E0409 at 10:33
# expect: E0406 at 13:29
# expect: E0407 at 16:33
# expect: E0203 at 19:33
# expect: E0401 at 22:33
# expect: E0311 at 25:34

fn f(x: [b n]) -> [b n 3]:
    return repeat(x: b n -> b n r)

fn g(x: [b n]) -> [b 3]:
    return repeat(x: b n -> b 3)

fn h(x: [b n]) -> [b n]:
    return repeat(x: b n -> b n n)

fn k(x: [b n]) -> [b n 3]:
    return repeat(x: b n -> b n R)

fn l(x: [b n], m: [k]) -> [b n k]:
    return repeat(x: b n -> b n k, k=3)

fn m(x: [b n]) -> [b n]:
    return repeat(x: b n -> b n, r=3)

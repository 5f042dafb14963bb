# How many are taken is a size, and no more than the axis has.
# expect: E0503 at 11:30
# expect: E0503 at 15:44
# expect: E0502 at 19:44
# expect: E0302 at 23:22
# expect: E0404 at 28:12

dim Classes = 10

fn f(x: [b Classes]) -> [b 11]:
    values, places = topk(x, 11, over=Classes)
    return values

fn g(x: [b n]) -> [b n]:
    values, places = topk(x, over=n, count=-1)
    return values

fn h(x: [b n], k: int) -> [b n]:
    values, places = topk(x, over=n, count=k)
    return values

fn k(x: [b n]) -> [b n]:
    values, places = topk(x, over=n)
    return values

fn m(x: [b n]) -> [b n]:
    values, places = topk(x, over=n, count=3)
    return values

# `dot` and what is made from a model take models.
# expect: E0301 at 7:16
# expect: E0301 at 10:18
# expect: E0301 at 13:18

fn dots(x: [3]) -> float:
    return dot(x, x)

fn rate(x: [3]) -> float:
    return rates(x)

fn table(x: [3]):
    print(groups(x))

# Models meet models of their own type, numbers and `[]`.
# expect: E0301 at 15:12
# expect: E0301 at 18:16
# expect: E0301 at 21:12
# expect: E0301 at 24:12
# expect: E0503 at 27:17

model A:
    w: [3] = ones

model B:
    w: [3] = ones

fn differ(a: A, b: B) -> A:
    return a + b

fn tensor(a: A, x: [3]) -> A:
    return a * x

fn division(a: A, b: A) -> A:
    return a // b

fn function(a: A, b: B) -> A:
    return maximum(a, b)

fn power(a: A) -> A:
    return a ** 0

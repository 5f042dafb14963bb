# What is computed again is a tensor, a number, a model, or several of them.
# expect: E0301 at 12:20
# expect: E0301 at 16:20
# expect: E0301 at 20:16
# expect: E0302 at 24:26

model M:
    parts: Part * 2
model Part:
    w: [3] = ones
fn of_mode(mode: Mode):
    m = checkpoint(mode)


fn of_list(m: M):
    p = checkpoint(m.parts)


fn of_nothing(x: [n]):
    checkpoint(told(x))


fn of_two(x: [n]) -> [n]:
    return checkpoint(x, x)


fn told(x: [n]):
    print(x)

# Of three operands one has all axes; nothing is stretched.
# expect: E0401 at 5:12

fn f(mask: bool[b], x: [n], y: [b]) -> [b]:
    return where(mask, x, y)

# A dim parameter begins with an upper-case letter.
# expect: E0502 at 4:6

fn f[d](x: [d]) -> [d]:
    return x

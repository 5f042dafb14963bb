# As many values as declared.
# expect: E0301 at 5:12

fn f(x: [b n]) -> ([b n], [b n]):
    return x

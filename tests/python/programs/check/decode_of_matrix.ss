# One text is decoded at a time.
# expect: E0301 at 5:21

fn f(v: Vocabulary, ids: int[b n]):
    print(decode(v, ids))

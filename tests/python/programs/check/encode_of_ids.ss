# A text is a string.
# expect: E0301 at 5:26

fn f(v: Vocabulary) -> int:
    return encode_one(v, 7)

# A mode is no vocabulary.
# expect: E0301 at 5:23

fn f(mode: Mode) -> int:
    return encode_one(mode, "a")

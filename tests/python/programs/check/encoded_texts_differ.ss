# Each encoded text has an axis of its own.
# expect: E0401 at 5:20

fn f(v: Vocabulary) -> int:
    return int(sum(encode(v, "ab") + encode(v, "cd"), over=characters))

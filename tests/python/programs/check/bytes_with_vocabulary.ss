# Bytes have a vocabulary of their own.
# expect: E0302 at 8:44

data Window:
    ids: int[8]

fn f(v: Vocabulary):
    text = load_bytes[Window]("input.txt", v)
    print(text.count)

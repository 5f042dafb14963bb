# A window is one field.
# expect: E0301 at 9:12

data Window:
    ids: int[8]
    next: int[8]

fn f():
    text = load_bytes[Window]("input.txt")
    print(text.count)

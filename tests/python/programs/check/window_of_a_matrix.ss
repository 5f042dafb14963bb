# A window's ids lie along one axis.
# expect: E0301 at 8:12

data Window:
    ids: int[8 8]

fn f():
    text = load_text[Window]("input.txt")
    print(text.count)

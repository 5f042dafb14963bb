# The ids of a text are whole numbers.
# expect: E0301 at 8:12

data Window:
    x: [8]

fn f():
    text = load_text[Window]("input.txt")
    print(text.count)

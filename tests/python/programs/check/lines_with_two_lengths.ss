# A line has ids and at most one length.
# expect: E0301 at 10:12

data Line:
    ids: int[8]
    length: int
    number: int

fn f():
    text = load_lines[Line]("names.txt")
    print(text.count)

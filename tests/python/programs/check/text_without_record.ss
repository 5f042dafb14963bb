# What a window is, a record says.
# expect: E0301 at 5:12

fn f():
    text = load_text("input.txt")
    print(text.count)

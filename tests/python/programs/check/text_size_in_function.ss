# A size that a file decides is declared.
# expect: E0201 at 5:12

fn f() -> int:
    return characters("input.txt")

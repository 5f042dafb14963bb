# Braces give names for names to a call that takes them; they are no value.
# expect: E0301 at 5:13

fn f() -> int:
    names = {"old": "new"}
    return 1

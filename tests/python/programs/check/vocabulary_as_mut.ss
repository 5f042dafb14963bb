# A vocabulary never changes.
# expect: E0605 at 4:6

fn f(mut v: Vocabulary):
    return

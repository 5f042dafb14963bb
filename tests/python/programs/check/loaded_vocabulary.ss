# A vocabulary is compared with the saved one, not loaded.
# expect: E0301 at 5:26

fn f():
    v = load("run.pt", v=Vocabulary)

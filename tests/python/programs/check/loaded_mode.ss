# A mode is restored in place, not made anew.
# expect: E0301 at 5:29

fn f():
    m = load("run.pt", mode=Mode)

# A load asks for something.
# expect: E0302 at 5:9

fn f():
    m = load("run.pt")

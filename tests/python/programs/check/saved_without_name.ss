# What is saved has a name.
# expect: E0302 at 8:20

model M:
    w: [] = zeros

fn f(m: M):
    save("run.pt", m)

# The step in a path is that of an optimiser, or an int called step, epochs or epoch.
# expect: E0302 at 8:10

model Net:
    w: [2] = ones

fn f(m: Net):
    save("run.{step}.pt", m=m)

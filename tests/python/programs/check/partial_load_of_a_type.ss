# A partial load leaves what the file lacks as it was: so there is a value to start from.
# expect: E0301 at 8:27

model Net:
    w: [2] = ones

fn f() -> Net:
    return load("a.pt", m=Net, partial=true)

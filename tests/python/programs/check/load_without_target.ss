# A load whose result nothing takes; one that gives none, and one that is bound.
# expect: E0313 at 9:5
# expect: E0313 at 10:5

model Net:
    w: [4] = zeros

fn f(mut m: Net, opt: AdamW[Net], mode: Mode, again: bool):
    load("a.pt", m=m, mode=mode, partial=true)
    latest("a.*") |> load(opt=AdamW[Net])
    load("a.pt", m=m, mode=mode)
    if again:
        m = load("a.pt", m=Net)
    m = load("a.pt", m=m, partial=true)

# The rate belongs to the update, not to the optimiser.
# expect: E0311 at 8:18

model M:
    w: [] = zeros

fn f(m: M):
    o = AdamW(m, lr=0.1)

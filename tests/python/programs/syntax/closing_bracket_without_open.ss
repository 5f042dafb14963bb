# expect: E0108 at 3:11

dim In = 3)

# expect: E0109 at 3:10

dim In = 1_000

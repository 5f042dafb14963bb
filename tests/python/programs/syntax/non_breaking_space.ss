# expect: E0101 at 3:9

dim In = 64

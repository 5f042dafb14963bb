# expect: E0101 at 3:13

dim In = 64 − 1

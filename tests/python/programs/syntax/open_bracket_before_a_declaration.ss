# expect: E0107 at 3:10

dim In = (3

dim Out = 4

# expect: E0101 at 4:5

dim In = 64
dim Größe = 3

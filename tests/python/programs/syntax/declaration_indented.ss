# expect: E0105 at 4:3

dim In = 64
  dim Out = 10

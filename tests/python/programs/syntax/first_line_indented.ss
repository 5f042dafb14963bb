# expect: E0105 at 3:3

  dim In = 64

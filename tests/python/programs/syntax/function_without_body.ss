# expect: E0106 at 3:1

fn f(x: int):

dim In = 64

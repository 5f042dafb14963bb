# expect: E0103 at 5:3

fn f() -> int:
    x = 1
  	return x

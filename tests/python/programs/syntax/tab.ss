# expect: E0103 at 4:1

fn f() -> int:
	return 1

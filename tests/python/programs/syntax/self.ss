# expect: E0126 at 3:6

fn f(self, y: int):
    return

# `training` asks a mode.
# expect: E0301 at 5:21

fn f(x: float) -> bool:
    return training(x)

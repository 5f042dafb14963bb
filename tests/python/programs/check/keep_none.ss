# At least the checkpoint that is saved stays.
# expect: E0503 at 5:43

fn f(step: int):
    save("run.{step}.pt", step=step, keep=0)

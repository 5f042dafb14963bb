# The same for operations.
# expect: E0902 at 8:12

data Logs:
    loss: float

fn f(loss: float):
    sink = csv("run.csv")
    write(sink, Logs(loss=loss))

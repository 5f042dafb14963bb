# A log's fields are single values.
# expect: E0301 at 8:17

data R:
    x: [3]

fn f(sink: LogSink, x: [3]):
    write(sink, R(x=x))

# What is logged is a record.
# expect: E0301 at 5:17

fn f(sink: LogSink):
    write(sink, 3)

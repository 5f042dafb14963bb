# A handle moves without mut.
# expect: E0605 at 4:6

fn g(mut sink: LogSink):
    return

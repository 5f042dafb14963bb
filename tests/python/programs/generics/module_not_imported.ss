# `loss` is declared in a module that is not imported: neither the model's module nor this one has it.
# expect: E2311 at 8:5

import shapescript.std.fit as std
import support.models as models

fn train(mut m: models.Linear, digits: Dataset[models.Digit], sink: LogSink, mode: Mode):
    std.fit(mut m, digits, sink, 1, 64, 3e-4, mode)

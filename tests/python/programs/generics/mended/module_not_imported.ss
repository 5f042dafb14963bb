# The mended version of module_not_imported.ss.

import shapescript.std.fit as std
import support.models as models
from support.losses import loss

fn train(mut m: models.Linear, digits: Dataset[models.Digit], sink: LogSink, mode: Mode):
    std.fit(mut m, digits, sink, 1, 64, 3e-4, mode)

# The loss, in a module of its own.

import shapescript.std.nn as nn
import models

fn loss(m: models.Linear, batch: models.Digit[b], mode: Mode) -> []:
    return batch.pixels |> nn.linear(m.output) |> cross_entropy(batch.label)

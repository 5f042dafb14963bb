# The mended version of two_that_fit.ss.

import shapescript.std.nn as nn
import shapescript.std.fit as std

dim In = 64
dim Classes = 10

data Digit:
    pixels: [In]
    label: int

model Linear:
    output: nn.Linear[In, Classes]

fn loss(m: Linear, batch: Digit[b], mode: Mode) -> []:
    return batch.pixels |> nn.linear(m.output) |> cross_entropy(batch.label)

fn train(mut m: Linear, digits: Dataset[Digit], sink: LogSink, mode: Mode):
    std.fit(mut m, digits, sink, 1, 64, 3e-4, mode)

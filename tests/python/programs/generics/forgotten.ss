# A generic function that calls one with a requirement states it too.
# expect: E2313 at 21:5

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

fn outer[M: model, E: data](mut m: M, data: Dataset[E], sink: LogSink, mode: Mode):
    std.fit(mut m, data, sink, 1, 64, 3e-4, mode)

fn train(mut m: Linear, digits: Dataset[Digit], sink: LogSink, mode: Mode):
    outer(mut m, digits, sink, mode)

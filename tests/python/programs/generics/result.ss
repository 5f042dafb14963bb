# `loss` gives one number for each example.
# expect: E2311 at 21:5

import shapescript.std.nn as nn
import shapescript.std.fit as std

dim In = 64
dim Classes = 10

data Digit:
    pixels: [In]
    label: int

model Linear:
    output: nn.Linear[In, Classes]

fn loss(m: Linear, batch: Digit[b], mode: Mode) -> [b]:
    return batch.pixels |> nn.linear(m.output) |> max(over=Classes)

fn train(mut m: Linear, digits: Dataset[Digit], sink: LogSink, mode: Mode):
    std.fit(mut m, digits, sink, 1, 64, 3e-4, mode)

# The first row of the table: a two-layer classifier of the digits, a whole training step, the loss handed over each step.

import shapescript.std.nn as nn

dim In = 64
dim Hidden = 128
dim Classes = 10

data Digit:
    pixels: [In]
    label: int

model Mlp:
    hidden: nn.Linear[In, Hidden]
    output: nn.Linear[Hidden, Classes]

data StepLog:
    loss: float

fn loss(m: Mlp, batch: Digit[b]) -> []:
    return batch.pixels |> nn.linear(m.hidden) |> relu |> nn.linear(m.output) |> cross_entropy(batch.label)

fn train(mut m: Mlp, mut opt: AdamW[Mlp], data: Dataset[Digit], sink: LogSink, first: int, stop: int, size: int):
    for epoch in first..stop:
        for batch in data |> shuffle(epoch) |> batches(size):
            l, mut g = value_and_grad(loss(m, batch), wrt=m)
            clip_norm(mut g, 1.0)
            update(mut m, mut opt, g, lr=3e-4)
            write(sink, StepLog(loss=l))

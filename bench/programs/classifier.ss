# A two-layer classifier. The benchmark puts the loop over training steps behind it.

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

fn forward(m: Mlp, pixels: [b In]) -> [b Classes]:
    return pixels |> nn.linear(m.hidden) |> relu |> nn.linear(m.output)

fn loss(m: Mlp, batch: Digit[b]) -> []:
    return forward(m, batch.pixels) |> cross_entropy(batch.label)

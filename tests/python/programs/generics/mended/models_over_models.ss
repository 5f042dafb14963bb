# Models made for other models, and a requirement that a generic function meets.

import shapescript.std.nn as nn
import shapescript.std.fit as std

dim In = 64
dim Classes = 10

data Digit:
    pixels: [In]
    label: int

model Small:
    output: nn.Linear[In, Classes]

model Large[H]:
    hidden: nn.Linear[In, H]
    output: nn.Linear[H, Classes]

model Scaled[M: model]:
    inner: M
    scale: [Classes] = ones

model Both[M: model, N: model, D]:
    left: M
    right: N
    shift: [D] = zeros

fn forward(m: Small, x: [b In]) -> [b Classes]:
    return x |> nn.linear(m.output)

fn forward[H](m: Large[H], x: [b In]) -> [b Classes]:
    return x |> nn.linear(m.hidden) |> relu |> nn.linear(m.output)

fn forward[M: model](m: Scaled[M], x: [b In]) -> [b Classes]
    requires forward(m: M, x: [b In]) -> [b Classes]:
    return forward(m.inner, x) * m.scale

fn loss(m: Scaled[Large[32]], batch: Digit[b], mode: Mode) -> []:
    return forward(m, batch.pixels) |> cross_entropy(batch.label)

fn train(mut m: Scaled[Large[32]], digits: Dataset[Digit], sink: LogSink):
    std.fit(mut m, digits, sink, 1, 64, 3e-4, Eval)

fn both[M: model, N: model](m: Both[M, N, Classes], x: [b In]) -> [b Classes]
    requires forward(m: M, x: [b In]) -> [b Classes]
    requires forward(m: N, x: [b In]) -> [b Classes]:
    return forward(m.left, x) + forward(m.right, x) + m.shift

fn two(m: Both[Small, Scaled[Small], Classes], x: [b In]) -> [b Classes]:
    return both(m, x)

# A layer of other dims than the operand.
# expect: E0401 at 10:27

import shapescript.std.nn as nn

dim I = 3
dim O = 4

fn h(layer: nn.Linear[I, O], x: [b O]) -> [b O]:
    return x |> nn.linear(layer)

# A model and its data, without a loss.

import shapescript.std.nn as nn

dim In = 64
dim Classes = 10

data Digit:
    pixels: [In]
    label: int

model Linear:
    output: nn.Linear[In, Classes]

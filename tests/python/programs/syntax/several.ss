# expect: E0100 at 8:8
# expect: E0114 at 10:11
# expect: E0118 at 14:22
# expect: E0119 at 19:11

import shapescript.std.nn as nn

dim In == 64

data Digit
    pixels: [In]

fn f(x: [b In]) -> [b In]:
    return x |> relu + 1

fn fine(x: [b In]) -> [b In]:
    return x

fn g(x: [b, In]):
    return

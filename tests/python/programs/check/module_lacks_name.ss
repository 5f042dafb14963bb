# A module that does not declare the name.
# expect: E0205 at 7:20

import shapescript.std.nn as nn

fn f(l: nn.Linear[3, 4], x: [b 3]) -> [b 4]:
    return x |> nn.liner(l)

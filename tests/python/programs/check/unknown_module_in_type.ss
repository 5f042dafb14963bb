# A type of a module that isn't imported, and one that the module lacks.
# expect: E0201 at 7:9
# expect: E0205 at 10:12

import shapescript.std.nn as nn

fn f(l: mm.Linear[3, 4]):
    return

fn g(l: nn.Liner[3, 4]):
    return

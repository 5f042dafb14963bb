# expect: E0100 at 3:17

from a.b import (c, d)

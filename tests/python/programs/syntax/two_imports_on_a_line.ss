# expect: E0100 at 3:9

import a, b

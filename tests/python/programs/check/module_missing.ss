# A module that is not there.
# expect: E0204 at 4:8

import nowhere

"""When this process began to load the package: code that has changed since isn't what runs."""

from __future__ import annotations

import time

BEGAN = time.time()

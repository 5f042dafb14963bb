"""`python -m shapescript …` is the command `shapescript …`."""

from __future__ import annotations

import sys

from shapescript.cli import main

sys.exit(main())

"""How far a run is, on the error stream."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """On one line of a terminal; elsewhere a line for each text. Nothing at all ends it."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    say("")
    print(text, file=sys.stderr)

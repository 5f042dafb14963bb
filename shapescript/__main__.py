"""The command `shapescript …`, which is `python -m shapescript …` too."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from shapescript.compiler.records.collection import paused_collection
from shapescript.signals import STATUS, Signals, Terminated


def command() -> NoReturn:
    """Runs a command and leaves the process. After a signal that is at once: nothing is waited for, such as LLVM in another thread."""
    with Signals() as signals:
        try:
            with paused_collection():
                from shapescript.cli import ended  # loading takes a while, in which a signal may come

            status = ended(None, signals)
        except KeyboardInterrupt as error:
            terminated = isinstance(error, Terminated)
            print(f"shapescript: {'terminated' if terminated else 'interrupted'}", file=sys.stderr)
            status = 143 if terminated else 130
        if status in STATUS.values():
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError, AttributeError):  # one that is closed, or was never there
                    stream.flush()
            os._exit(status)
        sys.exit(status)


if __name__ == "__main__":
    command()

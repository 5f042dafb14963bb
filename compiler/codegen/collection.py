"""Building LLVM's text without Python's collector of cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """No look for garbage in cycles while a function is lowered: nearly all that is made lives to the end, and looking through it again and
    again took a third of the time. Of several threads that come here at once, the first to end turns it on again for all."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

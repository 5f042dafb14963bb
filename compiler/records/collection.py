"""Loading, checking and compiling without Python's collector of cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """No look for garbage in cycles: nearly all that is made meanwhile lives to the end, and looking through it again and again took a
    third of the time of a lowering, a tenth of a start from the cache. So it counts as old afterwards. Of several threads that come here
    at once, the first to end turns it on again for all."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if not gc.get_freeze_count():  # what somebody has frozen stays so
                gc.freeze()
                gc.unfreeze()  # to the oldest generation
            gc.enable()

"""Cutting a file off at a place, when what stands behind it is to be kept."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from shapescript.runtime.files import free_name, sync_folder


def keep_tail(target: Path, size: int, beside: Path) -> None:
    """Keep what lies behind `size` bytes of a file in the first free of `beside.tail.1`, `.2`, …, durably, then cut it off."""
    side = free_name(beside, ".tail")
    with target.open("r+b") as file:
        file.seek(size)
        try:
            with side.open("xb") as kept:
                shutil.copyfileobj(file, kept)
                kept.flush()
                os.fsync(kept.fileno())
        except BaseException:
            side.unlink(missing_ok=True)
            raise
        file.truncate(size)
        os.fsync(file.fileno())
    sync_folder(target.parent)

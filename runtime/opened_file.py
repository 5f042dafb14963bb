"""A file that stays open while a program runs, read by position from any thread."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from shapescript.runtime.files import regular_file

MOST_AT_ONCE = 1 << 30  # one call of the operating system reads no more than about 2 GB


class OpenedFile:
    """A regular file. What stands at its path later doesn't matter: another file of that name isn't seen.

    It isn't mapped into memory: of a mapped file that is cut short, the operating system kills whoever reads it.
    """

    def __init__(self, path: str | Path) -> None:
        """Raises OSError, for a folder, a pipe or a device too."""
        self.path = Path(path)
        self._moving = threading.Lock()  # where a file is read by moving its one position
        self._descriptor = os.open(regular_file(path), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
        self.size = os.fstat(self._descriptor).st_size

    def read(self, place: int, count: int) -> bytes:
        """The bytes from this place on; fewer where the file ends, or ended when it was opened. Raises OSError."""
        parts, count = [], min(count, self.size - place)
        while count > 0:
            part = self._read_some(place, min(count, MOST_AT_ONCE))
            if not part:
                break
            parts.append(part)
            place, count = place + len(part), count - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_some(self, place: int, count: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._descriptor, count, place)
        with self._moving:
            os.lseek(self._descriptor, place, os.SEEK_SET)
            return os.read(self._descriptor, count)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            with contextlib.suppress(OSError):
                os.close(self._descriptor)

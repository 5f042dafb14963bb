"""Hashes of the compiler's own files: what is kept was made by just this code."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from shapescript.beginning import BEGAN

OTHER_ROOMS = ("syntax", "check", "reference", "__pycache__")  # of the compiler: what becomes of a checked program is in the rest
CLOCK_SLACK = 0.02  # seconds by which a file system's clock may be behind


def compiler_code() -> bytes | None:
    """Of all that deals with a checked program, as the files are now; None where one has changed since this process began."""
    import shapescript.compiler

    (folder,) = map(Path, shapescript.compiler.__path__)
    rooms = sorted(room for room in folder.iterdir() if room.is_dir() and room.name not in OTHER_ROOMS)
    return code_digest([*rooms, Path(__file__).parent], BEGAN)


code_at_first = cache(compiler_code)


def code_digest(folders: Sequence[Path], since: float) -> bytes | None:
    """Of the Python files in the folders. None where there are none, or one has changed since this time: its old text may be loaded."""
    digest = hashlib.sha256()
    count = 0
    for folder in folders:
        for name in sorted(name for name in os.listdir(folder) if name.endswith(".py")):
            with (folder / name).open("rb") as file:
                text = file.read()
                state = os.fstat(file.fileno())
                if max(state.st_mtime, state.st_ctime) > since - CLOCK_SLACK:  # one that is moved here keeps the time of its text
                    return None
            digest.update(f"{folder.name}/{name} {len(text)}\n".encode() + text)
            count += 1
    return digest.digest() if count else None

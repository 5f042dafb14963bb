"""Sizes that a file decides: `characters("input.txt")`, `lines("names.txt")`, `longest_line("names.txt")`."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from shapescript.compiler.numerics.texts import characters_of, decoded, lines_of, places_of
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class _Counts:
    characters: int
    lines: int
    longest_line: int


SIZES: dict[str, Callable[[_Counts], int]] = {
    "characters": lambda counts: counts.characters,
    "lines": lambda counts: counts.lines,
    "longest_line": lambda counts: counts.longest_line,
}

WHAT = {"characters": "characters", "lines": "lines", "longest_line": "longest line"}

_counted: dict[tuple[Path, int, int], _Counts] = {}  # by path, time of the last change and size: files are large, and asked for again


def size_of(name: str, path: str, folder: Path) -> int:
    """A size of the text in a file, looked for as data files are. Raises OSError or ValueError, which say why it can't be counted."""
    return SIZES[name](_counts(_found(path, folder)))


def _found(path: str, folder: Path) -> Path:
    places = places_of(path, (folder, Path.cwd()))
    for place in places:
        if os.path.exists(place):
            return place
    raise ValueError(f"no such file; looked for {' and '.join(map(str, places))}")


def _counts(path: Path) -> _Counts:
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        raise ValueError("it is no regular file")
    key = (path, state.st_mtime_ns, state.st_size)
    if key not in _counted:
        text = decoded(path.read_bytes())
        lines = lines_of(text)
        _counted[key] = _Counts(len(characters_of(text)), len(lines), max(map(len, lines), default=0))
    return _counted[key]

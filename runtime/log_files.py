"""What a log's file holds, against what is known of it: the position that its pieces reach, and whether it is as it was left."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.errors import CheckpointError
from shapescript.runtime.log_lines import Position


@dataclass(frozen=True)
class Reached:
    """How far a file's pieces go, and what it begins with; None where nothing of it was looked at."""

    position: Position
    head: bytes | None


def reach(pieces: Iterable[bytes], has_head: bool, start: Position, until: int | None = None) -> Reached:
    """Walk a file's whole pieces, up to the one that reaches `until` bytes. With a head, the first piece is no record."""
    position, head = start, None
    for piece in pieces:
        if until is not None and position.size >= until:
            break
        is_head = has_head and head is None
        position = position.after(piece, records=0 if is_head else 1)
        if head is None:
            head = piece if is_head else b""
    return Reached(position, head)


def saved_places(saved: Mapping[str, Any]) -> tuple[Position, Position]:
    """Where a file's first byte stands, and where it goes on, by a saved position. Raises CheckpointError R1302 for what is none."""
    start = Position.from_dict(saved["start"]) if isinstance(saved.get("start"), Mapping) else Position()
    return start, Position.from_dict(saved)


def misfit(log: Path, goal: Position, reached: Position, size: int) -> CheckpointError:
    """A file of `size` bytes that reaches another position than the saved one."""
    message = (
        f"{log}: the log doesn't begin with what it held when the checkpoint was saved: "
        f"expected {goal.records} {'record' if goal.records == 1 else 'records'} in {goal.size} bytes, "
        f"found {reached.records} in a file of {size} bytes" + (", with another content" if reached.records == goal.records else "")
    )
    return CheckpointError("R1303", message, kind="value", name="sink", expected=goal.as_dict(), found=reached.as_dict())


@dataclass(frozen=True)
class Identity:
    """What a file that nobody touches keeps."""

    device: int
    inode: int
    size: int
    changed: int  # nanoseconds

    @classmethod
    def of(cls, found: os.stat_result) -> Identity:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    @classmethod
    def at(cls, path: Path) -> Identity | None:
        try:
            return cls.of(path.stat())
        except FileNotFoundError:
            return None

"""The sink that writes JSON lines: one file, one record a line, each line handed to the operating system at once.

Opening it touches no file. The first write begins the file anew: one with content that is already there is renamed to the
first free of `name.1`, `name.2`, …. Restored from a checkpoint, the file goes on: what it holds after the checkpoint's
position, a torn last line too, is kept in the first free of `name.tail.1`, `name.tail.2`, … and cut off.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from shapescript.runtime.errors import CheckpointError, LogError, cause_of
from shapescript.runtime.files import free_name, regular_file, sync_folder, write_all
from shapescript.runtime.log_lines import Position, encode_line
from shapescript.runtime.sinks import LogSink


class JsonLinesSink(LogSink):
    """Appends records to a file as lines of strict JSON; see the module for what happens to a file that is there."""

    kind = "jsonl"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))
        self._file: int | None = None  # the open file's descriptor
        self._begun = False
        self._unsynced = self._folder_unsynced = False  # whether the file, or its name in its folder, isn't durable yet
        self._start = Position()  # what was written before the file's first byte: something only where a run went on in a new file
        self._position = Position()

    def write(self, record_name: str, fields: Mapping[str, Any]) -> None:
        line = encode_line(record_name, fields)
        with self._failures():
            file = self._open() if self._file is None else self._file
            try:
                write_all(file, line)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(file, self._position.size - self._start.size)
                raise
        self._position, self._unsynced = self._position.after(line), True

    def flush(self) -> None:
        if self._file is None or not self._unsynced:
            return
        with self._failures():
            os.fsync(self._file)
            if self._folder_unsynced:
                sync_folder(self._target().parent)
        self._unsynced = self._folder_unsynced = False

    def position(self) -> dict[str, Any]:
        start = {"start": self._start.as_dict()} if self._start.size else {}
        return {"kind": self.kind, **self._position.as_dict(), **start}

    def check_restore(self, position: Mapping[str, Any]) -> None:
        with self._failures():
            self._check(position)

    def restore(self, position: Mapping[str, Any]) -> None:
        with self._failures():
            start, goal = self._check(position)
            target = self._target()
            self._close_file()
            if target.exists() and target.stat().st_size > goal.size - start.size:
                _cut_off(target, goal.size - start.size)
        self._start, self._position, self._begun = start, goal, True

    def close(self) -> None:
        """Make what was written durable and close the file; a later write opens it again and goes on."""
        self.flush()
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        target = self._target()
        if not self._begun and target.exists() and target.stat().st_size:
            target.rename(free_name(target, ""))
        self._file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._begun = self._folder_unsynced = True
        return self._file

    def _target(self) -> Path:
        """Only a regular file is renamed, cut or appended to."""
        return regular_file(self.path)

    def _check(self, saved: Mapping[str, Any]) -> tuple[Position, Position]:
        """Where the file's first byte stands and where it goes on, if the file fits the saved position."""
        self.check_kind(saved)
        goal = Position.from_dict(saved)
        start = Position.from_dict(saved["start"]) if isinstance(saved.get("start"), Mapping) else Position()
        target = self._target()
        if not target.exists() or not target.stat().st_size:
            return goal, goal
        reached = start
        with target.open("r+b") as content:
            for line in content:
                if reached.size >= goal.size or not line.endswith(b"\n"):
                    break
                reached = reached.after(line)
        if reached != goal:
            self._refuse(goal, reached, target.stat().st_size)
        return start, goal

    def _refuse(self, goal: Position, reached: Position, size: int) -> NoReturn:
        message = (
            f"{self.path}: the log doesn't begin with what it held when the checkpoint was saved: "
            f"expected {goal.records} records in {goal.size} bytes, found {reached.records} in a file of {size} bytes"
            + (", with another content" if reached.records == goal.records else "")
        )
        raise CheckpointError("R1303", message, kind="value", name="sink", expected=goal.as_dict(), found=reached.as_dict())

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"{self.path}: the log can't be written: {cause_of(error)}"
            raise LogError("R1401", message, number=error.errno, filename=str(self.path)) from error

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self._close_file()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a JsonLinesSink can't be pickled or copied: it stands for one file")

    def __repr__(self) -> str:
        return f"JsonLinesSink({str(self.path)!r})"


def jsonl(path: str | os.PathLike[str]) -> JsonLinesSink:
    """A sink that writes JSON lines to `path`; nothing is opened before the first write."""
    return JsonLinesSink(path)


def _cut_off(target: Path, size: int) -> None:
    """Keep what lies behind `size` bytes in a file beside, durably, then cut it off."""
    side = free_name(target, ".tail")
    with target.open("r+b") as file:
        file.seek(size)
        try:
            with side.open("xb") as kept:
                kept.write(file.read())
                kept.flush()
                os.fsync(kept.fileno())
        except OSError:
            side.unlink(missing_ok=True)
            raise
        file.truncate(size)
        os.fsync(file.fileno())
    sync_folder(target.parent)

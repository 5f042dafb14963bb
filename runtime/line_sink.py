"""What the sinks have in common that write one file: each record is one piece of it, a line for most, handed to the system at once.

Opening a sink touches no file. The first write takes the lock that lies beside the file, so that nobody else writes it, and begins the
file anew: one with content that is already there is renamed to the first free of `name.1`, `name.2`, …; with `append` it goes on
instead. Restored from a checkpoint, the file goes on too. What it holds behind the place where it goes on, a torn last piece for
instance, is kept in the first free of `name.tail.1`, `name.tail.2`, … and cut off.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NoReturn

from shapescript.runtime.errors import LogError, cause_of
from shapescript.runtime.files import free_name, regular_file, sync_folder, write_all
from shapescript.runtime.locks import FileLock, lock_log
from shapescript.runtime.log_files import Identity, Reached, misfit, reach, saved_places
from shapescript.runtime.log_lines import Position
from shapescript.runtime.sinks import LogSink
from shapescript.runtime.tails import keep_tail


class LineSink(LogSink):
    """Appends records to a file; see the module for what happens to a file that is there."""

    has_head: ClassVar[bool] = False  # whether a file begins with a piece that is no record

    def __init__(self, path: str | os.PathLike[str], append: bool = False) -> None:
        self.path = Path(os.path.abspath(path))
        self._append = append
        self._lock: FileLock | None = None
        self._file: int | None = None  # the open file's descriptor
        self._begun = False  # whether the file is what `_start` and `_position` say
        self._unsynced = self._folder_unsynced = False  # whether the file, or its name in its folder, isn't durable yet
        self._start = Position()  # what was written before the file's first byte: something only where a run went on in a new file
        self._position = Position()
        self._head: bytes | None = None  # what the file begins with, where it has begun
        self._left: Identity | None = None  # the file as it was when it was closed
        self._torn = False  # whether the file may end with a part of a record, which a failing disk kept from being cut off
        self._turn = threading.RLock()

    # ---- what the formats are

    @abstractmethod
    def _encode(self, record_name: str, fields: Mapping[str, Any]) -> bytes:
        """The piece for one record. Raises ArgumentError R1004."""

    @abstractmethod
    def _pieces(self, content: BinaryIO) -> Iterator[bytes]:
        """The whole pieces of a file, from its begin; what is torn ends them."""

    def _new_head(self, fields: Mapping[str, Any]) -> bytes:
        """What a file begins with whose first record has these fields."""
        return b""

    def _check_head(self, record_name: str, fields: Mapping[str, Any], head: bytes) -> None:  # most formats take any record
        """Raise LogError R1403 for a record that doesn't fit a file that begins with `head`."""

    def _target(self) -> Path:
        """The file itself, behind links: only a regular one is renamed, cut or appended to."""
        return regular_file(self.path)

    def _beside(self, target: Path) -> Path:
        """What files are called after that lie beside: the lock, old logs, and what was cut off."""
        return target

    # ---- writing

    def write(self, record_name: str, fields: Mapping[str, Any]) -> None:
        with self._turn, self._failures():
            piece = self._encode(record_name, fields)
            file = self._ready(record_name, fields)
            self._put(file, self._new_head(fields) if self._head is None else b"", piece)

    def check_write(self, record_name: str, fields: Mapping[str, Any]) -> None:
        with self._turn, self._failures():
            self._encode(record_name, fields)
            self._prepare(record_name, fields)

    def _prepare(self, record_name: str, fields: Mapping[str, Any]) -> None:
        """Take the lock, and check the record against what the file begins with, unless that fails."""
        was_held = self._is_locked()
        self._take_lock()
        try:
            head = self._found().head if self._append and not self._begun else self._head
            if head is not None:
                self._check_head(record_name, fields, head)
        except BaseException:
            if not was_held:
                self._free_lock()
            raise

    def _ready(self, record_name: str, fields: Mapping[str, Any]) -> int:
        """The descriptor of the file, locked, at the place where it goes on with this record."""
        was_open = self._file if self._is_locked() else None
        self._prepare(record_name, fields)
        if was_open is not None:
            return was_open
        self._close_file()
        try:
            return self._open()
        except BaseException:
            self._free_lock()
            raise

    def _put(self, file: int, head: bytes, piece: bytes) -> None:
        """Hand over a piece, behind the head where the file has none; a failure or Ctrl-C leaves all of it or nothing."""
        begun = self._position.after(head, records=0) if head else self._position
        after = begun.after(piece)
        try:
            write_all(file, head + piece)
            self._position, self._head = after, head if self._head is None else self._head
        except BaseException:
            self._torn = True
            with contextlib.suppress(OSError):
                os.ftruncate(file, self._size())
                self._torn = False
            if self._torn:
                self._close_file()
            raise
        finally:
            self._unsynced = True

    def _size(self) -> int:
        """How many bytes of the file are whole pieces."""
        return self._position.size - self._start.size

    def flush(self) -> None:
        with self._turn:
            if not self._unsynced:
                return
            with self._failures():
                file = self._file
                if file is not None:
                    os.fsync(file)
                else:
                    self._sync_closed()
                if self._folder_unsynced:
                    sync_folder(self._target().parent)
            self._unsynced = self._folder_unsynced = False

    def _sync_closed(self) -> None:
        file = os.open(self._target(), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    # ---- positions

    def position(self) -> dict[str, Any]:
        with self._turn:
            reached = self._position
            if self._append and not self._begun:
                with self._failures():
                    reached = self._found().position
            start = {"start": self._start.as_dict()} if self._start.size else {}
            return {"kind": self.kind, **reached.as_dict(), **start}

    def check_restore(self, position: Mapping[str, Any]) -> None:
        self._places(position)
        with self._turn, self._failures():
            was_held = self._is_locked()
            if self._folder_is_there():
                self._take_lock()
            try:
                self._check(position)
            finally:
                if not was_held:
                    self._free_lock()

    def restore(self, position: Mapping[str, Any]) -> None:
        self._places(position)  # what is no position of this sink locks nothing
        with self._turn, self._failures():
            self._take_lock()
            try:
                start, goal, head = self._check(position)
                target = self._target()
                self._close_file()
                if target.exists() and target.stat().st_size > goal.size - start.size:
                    keep_tail(target, goal.size - start.size, self._beside(target))
                self._left = Identity.at(target)
            except BaseException:
                if self._file is None:
                    self._free_lock()
                raise
            self._start, self._position, self._head, self._begun, self._torn = start, goal, head, True, False

    def _check(self, saved: Mapping[str, Any]) -> tuple[Position, Position, bytes | None]:
        """Where the file's first byte stands, where it goes on, and what it begins with, if the file fits the saved position."""
        start, goal = self._places(saved)
        target = self._target()
        if not target.exists() or not target.stat().st_size:
            return goal, goal, None
        with target.open("r+b") as content:  # one that can't be written is refused here
            reached = reach(self._pieces(content), self.has_head, start, goal.size)
        if reached.position != goal:
            raise misfit(self.path, goal, reached.position, target.stat().st_size)
        return start, goal, reached.head

    def _places(self, saved: Mapping[str, Any]) -> tuple[Position, Position]:
        self.check_kind(saved)
        return saved_places(saved)

    def _found(self) -> Reached:
        """What the file holds that is there before this sink has begun."""
        target = self._target()
        if not target.exists():
            return Reached(Position(), None)
        with target.open("rb") as content:
            return reach(self._pieces(content), self.has_head, Position())

    # ---- the file

    def _is_locked(self) -> bool:
        return self._lock is not None and self._lock.held

    def _open(self) -> int:
        target = self._target()
        if self._begun:
            self._check_left(target)
        elif target.exists() and target.stat().st_size:
            if self._append:
                found = self._found()
                self._position, self._head = found.position, found.head
                if self._size() < target.stat().st_size:
                    keep_tail(target, self._size(), self._beside(target))
            else:
                target.rename(free_name(self._beside(target), ""))
        self._file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._begun = self._folder_unsynced = True
        return self._file

    def _check_left(self, target: Path) -> None:
        """Raise LogError R1402 unless the file is as this sink left it."""
        size = target.stat().st_size if target.exists() else 0
        if self._torn and size > self._size():
            os.truncate(target, self._size())
            size, self._torn = self._size(), False
        elif Identity.at(target) == self._left:
            return
        if size == self._size():
            if not size:
                return
            with target.open("rb") as content:
                if reach(self._pieces(content), self.has_head, self._start, self._position.size).position == self._position:
                    return
        change = f"this run left {self._size()} bytes in it, now it has {size}" + ("" if size != self._size() else " others")
        message = f"{self.path}: another run has written the log, or it was edited: {change}"
        raise LogError("R1402", message, number=errno.EBUSY, filename=str(self.path))

    def _folder_is_there(self) -> bool:
        """Where a sink makes its folder itself, one that isn't there is nothing to lock."""
        return True

    def _take_lock(self) -> None:
        if not self._is_locked():
            self._lock = lock_log(self.path, self._beside(self._target()))

    def _free_lock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _close_file(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            with contextlib.suppress(OSError):
                self._left = Identity.of(os.fstat(file))
                os.close(file)

    def release(self) -> None:
        with self._turn:
            self._close_file()
            self._free_lock()

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except LogError:
            raise
        except OSError as error:
            message = f"{self.path}: the log can't be written: {cause_of(error)}"
            raise LogError("R1401", message, number=error.errno, filename=str(self.path)) from error

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self._close_file()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} can't be pickled or copied: it stands for one file")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

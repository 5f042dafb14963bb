"""A folder of files that can be made again: published whole, checked when they are read, bounded in size, safe with many processes.

Nothing here fails a program: what can't be read or written isn't there. A file is taken only from a folder and of an owner that nobody else
can write for, because machine code is run as it stands in it; its checksum finds damage, not malice.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.files import write_all

MAGIC = b"\x89ShapeScript object 1\r\n"
DIGEST_BYTES = 32
HEADER_BYTES = len(MAGIC) + 2 * DIGEST_BYTES  # magic, who it was made for, the checksum of name, who and content
SUFFIX = ".object"
UNFINISHED = ".unfinished"
LIMIT_BYTES = 256 << 20
LEAST_ROOM = 16 << 10  # that a file counts for: small ones take room on the disk too, and many of them time to look through
TOUCH_SECONDS = 24 * 3600.0  # a use is noted at most so often
ABANDONED_SECONDS = 3600.0  # a file that is being written for so long was left by a process that is gone


class Damaged(Exception):
    """A file that isn't what was written under its name; the text says why."""


@dataclass(frozen=True)
class Entry:
    """A file of the folder. `used` is when it was used last, to about a day."""

    name: str
    size: int
    used: float


class ObjectCache:
    """The files of a folder, by names of letters, digits and `-`."""

    def __init__(self, folder: Path, limit: int = LIMIT_BYTES) -> None:
        self.folder, self.limit = folder, limit

    def problem(self) -> str | None:
        """Why the folder can't be used; None where it can be, or isn't there yet."""
        try:
            found = os.stat(self.folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            return _reason(error)
        if not stat.S_ISDIR(found.st_mode):
            return "it is no folder"
        return _untrusted(found)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none. Raises Damaged."""
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Damaged(_reason(error)) from None
        try:
            found = os.fstat(descriptor)
            why = "it is no regular file" if not stat.S_ISREG(found.st_mode) else _untrusted(found)
            if why:
                raise Damaged(why)
            with open(descriptor, "rb", closefd=False) as file:
                content = _content(name, file.read())
            if time.time() - found.st_mtime > TOUCH_SECONDS:
                with contextlib.suppress(OSError):
                    os.utime(descriptor)
        except OSError as error:
            raise Damaged(_reason(error)) from None
        finally:
            os.close(descriptor)
        return content

    def write(self, name: str, who: bytes, content: bytes) -> str | None:
        """Publish a file under a name, in the place of one that is there; the least recently used ones go where there is no room. Gives
        why it could not be done, None where it was."""
        data = MAGIC + who + _checksum(name, who, content) + content
        if len(data) > self.limit:
            return f"its {len(data)} bytes are more than the cache may hold"
        beside = self.folder / f"{name}.{os.urandom(8).hex()}{UNFINISHED}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            why = self.problem()
            if why:
                return why
            self._make_room(len(data))
            _write_new(beside, data)
            os.replace(beside, self._path(name))
        except OSError as error:
            _remove(beside)
            return _reason(error)
        except BaseException:  # Ctrl-C leaves no unfinished file either
            _remove(beside)
            raise
        return None

    def entries(self) -> list[Entry]:
        """The files, the least recently used first."""
        return sorted(self._scan(SUFFIX), key=lambda entry: (entry.used, entry.name))

    def made_for(self, who: bytes) -> Iterator[str]:
        """The names of files that were written for the same."""
        for entry in self.entries():
            with contextlib.suppress(OSError), open(self._path(entry.name), "rb") as file:
                if file.read(len(MAGIC) + DIGEST_BYTES) == MAGIC + who:
                    yield entry.name

    def clear(self) -> tuple[int, int]:
        """Remove all files; gives how many, and their bytes."""
        entries = self.entries()
        removed = [entry for entry in entries if _remove(self._path(entry.name))]
        for entry in self._scan(UNFINISHED):
            _remove(self.folder / f"{entry.name}{UNFINISHED}")
        return len(removed), sum(entry.size for entry in removed)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{SUFFIX}"

    def _scan(self, suffix: str) -> Iterator[Entry]:
        """Files that other processes remove meanwhile are left out."""
        try:
            found = list(os.scandir(self.folder))
        except OSError:
            return
        for file in found:
            if file.name.endswith(suffix):
                with contextlib.suppress(OSError):
                    state = file.stat(follow_symlinks=False)
                    if stat.S_ISREG(state.st_mode):
                        yield Entry(file.name.removesuffix(suffix), state.st_size, state.st_mtime)

    def _make_room(self, size: int) -> None:
        entries = self.entries()
        total = _room(size) + sum(_room(entry.size) for entry in entries)
        for entry in entries:
            if total <= self.limit:
                break
            _remove(self._path(entry.name))
            total -= _room(entry.size)
        for entry in self._scan(UNFINISHED):
            if time.time() - entry.used > ABANDONED_SECONDS:
                _remove(self.folder / f"{entry.name}{UNFINISHED}")


def _room(size: int) -> int:
    """What a file of so many bytes takes of the limit."""
    return max(size, LEAST_ROOM)


def _content(name: str, data: bytes) -> bytes:
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
        raise Damaged("it is cut off, or no file of this cache")
    start = len(MAGIC) + DIGEST_BYTES
    who, content = data[len(MAGIC) : start], data[HEADER_BYTES:]
    if data[start:HEADER_BYTES] != _checksum(name, who, content):
        raise Damaged("its checksum is wrong")
    return content


def _checksum(name: str, who: bytes, content: bytes) -> bytes:
    """The name is in it, so that a file under another's name is found out."""
    return hashlib.sha256(name.encode() + b"\0" + who + content).digest()


def _untrusted(found: os.stat_result) -> str | None:
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        return "it belongs to another user"
    return "other users may write to it" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def _write_new(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


def _reason(error: OSError) -> str:
    return error.strerror or str(error)

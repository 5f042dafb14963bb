"""Files that survive a kill or a full disk: whole writes, and replacing a file at once or not at all."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # pragma: no cover  # systems without flock
    fcntl = None  # type: ignore[assignment]


def regular_file(path: str | os.PathLike[str]) -> Path:
    """The path of the file itself, behind symbolic links; nothing need be there yet.

    Raises OSError for what no file can be called, and for a folder, a pipe or a device: reading one may never end.
    """
    if "\0" in os.fspath(path):
        raise OSError(errno.EINVAL, "the character U+0000 can't stand in a path")
    target = Path(os.path.realpath(path))
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        kind = "a directory, " if target.is_dir() else ""
        raise OSError(errno.EINVAL, f"{kind}not a regular file", os.fspath(path))
    return target


def write_all(file: int, data: bytes) -> None:
    """Hand every byte to the operating system; one call of `os.write` may take only some."""
    written = os.write(file, data)
    while written < len(data):
        written += os.write(file, data[written:])


def free_name(path: Path, suffix: str) -> Path:
    """The first of `path + suffix + ".1"`, ".2", … that doesn't exist."""
    for number in itertools.count(1):
        name = path.with_name(f"{path.name}{suffix}.{number}")
        if not os.path.lexists(name):
            return name
    raise AssertionError("the numbers don't end")


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable, where its file system can."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


class UnsyncedError(OSError):
    """A new file stands at its path, but a power cut may bring the old one back."""


def replace_file(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a new file beside `path`, make it durable, then rename it over `path`: whoever looks sees the old or the new one.

    New files that processes left in the folder when they were killed are removed first. Raises whatever writing raises; then the old
    file is as it was and the new one is gone. Raises UnsyncedError where the new one is there, and isn't durable.
    """
    target = regular_file(path)
    remove_abandoned(target.parent)
    beside, file = _new_file(target)
    try:
        with file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            beside.replace(target)
    except BaseException:  # a Ctrl-C too must leave no temporary file
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    try:
        sync_folder(target.parent)
    except OSError as error:
        raise UnsyncedError(*error.args) from error


def is_unfinished(path: str | os.PathLike[str]) -> bool:
    """Whether a file is called as `replace_file` calls one that isn't whole yet."""
    return _UNFINISHED.fullmatch(Path(path).name) is not None


def remove_abandoned(folder: Path) -> None:
    """Remove the files that `replace_file` began there in processes that are gone: a living writer holds a lock on its own."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if is_unfinished(entry.name):
                _remove_unlocked(entry.path)


_UNFINISHED = re.compile(r"\..*\.shapescript-[0-9a-f]{16}\.tmp", re.DOTALL)


def _new_file(target: Path) -> tuple[Path, BinaryIO]:
    """A new, locked file beside `target`. Between its making and its lock another process may take it for abandoned: then another one."""
    while True:
        beside = target.with_name(f".{target.name[:40]}.shapescript-{os.urandom(8).hex()}.tmp")  # a name has 255 bytes at most
        file = beside.open("xb")
        with contextlib.suppress(OSError):  # a file system without locks: nobody can take the file for abandoned there
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return beside, file
        file.close()


def _remove_unlocked(path: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)  # no other file is ever called so: the name holds 64 bits of chance
        finally:
            os.close(descriptor)

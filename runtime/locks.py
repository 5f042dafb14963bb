"""One writer a file: a lock file that lies beside it while somebody writes, and holds the writer's process id.

Where the system has `flock`, it is what locks: a lock file whose writer was killed is free at once. Elsewhere the file itself is the
lock, and one whose process is gone is taken over. The lock file is removed while it is locked, and whoever has just locked one looks
whether it is still the one in the folder; so removing it lets nobody in beside another.

A forked child holds no locks: what its parent had locked stays the parent's.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import re
import weakref
from pathlib import Path

from shapescript.runtime.errors import LogError, cause_of

try:
    import fcntl
except ImportError:  # pragma: no cover  # systems without flock
    fcntl = None  # type: ignore[assignment]

_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)  # a file system that can't lock
_CONTENT = re.compile(rb"(\d{1,20})?\n?")


class HeldError(Exception):
    """Somebody else has the lock; `pid` is the process, where it is known."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(pid)
        self.pid = pid


class FileLock:
    """The lock whose file is `path`, held from when this is made until `release`.

    Raises HeldError where another has it, in this process too; OSError where the file can't be made, or is no lock.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.held = path, False
        self._file: int | None = None
        try:
            if fcntl is None:
                raise OSError(errno.ENOSYS, "no flock")
            self._file = _flocked(path)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            _make_alone(path)
        self.held = True
        _locks.add(self)

    def release(self) -> None:
        """Give the lock back and remove its file; nothing where it isn't held."""
        if not self.held:
            return
        self.held = False
        with contextlib.suppress(OSError):
            if (_is_at(self._file, self.path)) if self._file is not None else (_content(self.path) == _own_content()):
                self.path.unlink()
        self._close()

    def forget(self) -> None:
        """What a forked child does: the lock is its parent's."""
        self.held = False
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        self.release()


def lock_log(log: Path, beside: Path) -> FileLock:
    """Lock a log by the file `beside` + ".lock". Raises LogError R1402 where another run or sink has it, R1401."""
    path = beside.with_name(f"{beside.name}.lock")
    try:
        return FileLock(path)
    except HeldError as error:
        if error.pid == os.getpid():
            who = "another sink of this process is writing it; close that one first"
        else:
            who = "another run is writing it" + (f": process {error.pid}" if error.pid is not None else "")
        raise LogError("R1402", f"{log}: {who}", number=errno.EBUSY, filename=str(log)) from None
    except OSError as error:
        message = f"{log}: the log can't be locked: {path.name}: {cause_of(error)}"
        raise LogError("R1401", message, number=error.errno, filename=str(log)) from error


_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _release_all() -> None:
    for lock in list(_locks):
        lock.release()


def _forget_all() -> None:
    for lock in list(_locks):
        lock.forget()


atexit.register(_release_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


# ---- with flock


def _flocked(path: Path) -> int:
    """The descriptor of the locked file."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise HeldError(_pid_in(os.pread(file, 64, 0))) from None
            _pid_in(os.pread(file, 64, 0))  # what is no lock is left alone
            if _is_at(file, path):
                with contextlib.suppress(OSError):  # on a full disk the lock holds without saying whose it is
                    os.ftruncate(file, 0)
                    os.pwrite(file, _own_content(), 0)
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except FileNotFoundError:
        return False


# ---- without


def _make_alone(path: Path) -> None:
    """Make the lock's file, with its content, unless it is there; one of a process that is gone is taken away first."""
    own = _unused(path)
    own.write_bytes(_own_content())
    try:
        while True:
            try:
                os.link(own, path)
                return
            except FileExistsError:
                content = _content(path)
                if content is None:
                    continue
                pid = _pid_in(content)
                if pid is not None and _lives(pid, path):
                    raise HeldError(pid) from None
                _take_away(path, content)
    finally:
        own.unlink(missing_ok=True)


def _take_away(path: Path, content: bytes) -> None:
    """Remove a lock that nobody holds; one that somebody has made in its place meanwhile is put back."""
    moved = _unused(path)
    with contextlib.suppress(FileNotFoundError):
        path.rename(moved)
        if _content(moved) != content:
            with contextlib.suppress(FileExistsError):
                os.link(moved, path)
        moved.unlink(missing_ok=True)


def _lives(pid: int, path: Path) -> bool:
    """Whether the process that a lock names may still hold it; after a restart a number may be ours that was another's."""
    if pid == os.getpid():
        return any(lock.held and lock.path == path for lock in list(_locks))
    if os.name != "posix":  # asking would end the process
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _unused(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.urandom(6).hex()}")


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()[:64]
    except FileNotFoundError:
        return None


def _own_content() -> bytes:
    return b"%d\n" % os.getpid()


def _pid_in(content: bytes) -> int | None:
    """The process that a lock's file names. Raises OSError for what no lock can hold: it is somebody's file."""
    found = _CONTENT.fullmatch(content)
    if found is None:
        raise OSError(errno.EEXIST, "a file that is no lock has the lock's name")
    return int(found[1]) if found[1] else None

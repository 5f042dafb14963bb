"""How many threads a call may use: what was asked for, else what the process may have. No LLVM is loaded for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

MOST_THREADS = 256
GRAIN = 10_000_000  # picoseconds of one core's work that are worth a thread: a fork and join of threads that are awake takes 0.5 to 1 µs
VARIABLE = "SHAPESCRIPT_THREADS"

_asked: ContextVar[tuple[int, int] | None] = ContextVar("threads", default=None)  # with the grain


def threads_now() -> tuple[int, int]:
    """How many threads a call that begins now may use, and how much work is worth one. Raises ValueError as `default_threads` does."""
    return _asked.get() or (default_threads(), GRAIN)


@contextmanager
def asked_for(count: int, grain: int = GRAIN) -> Iterator[None]:
    """Calls within use at most so many threads. Raises ValueError for a number that no call can use. `grain` is for tests."""
    token = _asked.set((checked(count, "threads"), grain))
    try:
        yield
    finally:
        _asked.reset(token)


def checked(count: int, name: str) -> int:
    if not 1 <= count <= MOST_THREADS:
        raise ValueError(f"{name}: expected a whole number from 1 to {MOST_THREADS}, got {count}")
    return count


@cache
def default_threads() -> int:
    """SHAPESCRIPT_THREADS, or the cores that this process may use. Raises ValueError for a variable that is no number of threads."""
    text = os.environ.get(VARIABLE, "").strip()
    if text:
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f"{VARIABLE}: expected a whole number from 1 to {MOST_THREADS}, got {text!r}")
        return checked(int(text), VARIABLE)
    return max(1, min(usable_cores(), quota_cores() or MOST_THREADS, MOST_THREADS))


def usable_cores() -> int:
    """The cores that the scheduler may put this process on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def quota_cores(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """Whole cores of CPU time that the process's control groups leave it, at least 1; None without a limit."""
    limits = [limit for folder in _group_folders(root, own) if (limit := _limit(folder)) is not None]
    return max(1, int(min(limits))) if limits else None


def _group_folders(root: Path, own: Path) -> list[Path]:
    """The folders of the process's groups, of both versions, from its own to the root."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        lines = ["0::/"]
    found: list[Path] = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        names = controllers.split(",")
        if controllers and "cpu" not in names:
            continue
        base = root / controllers if controllers else root
        folder = base / path.lstrip("/")
        found += [folder, *(parent for parent in folder.parents if parent.is_relative_to(base))]
    return found


def _limit(folder: Path) -> float | None:
    """Cores' worth of time, by cpu.max of version 2 or cpu.cfs_quota_us of version 1."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota, period = ((folder / name).read_text().strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
        except OSError:
            return None
    try:
        return None if int(quota) <= 0 else int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # "max"
        return None

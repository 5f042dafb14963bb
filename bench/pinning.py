"""Holds a process to some processors."""

from __future__ import annotations

import os
from pathlib import Path

THREADS = Path("/proc/self/task")


def pin(threads: int, place: int = 0) -> None:
    """Holds this process, all its threads, to so many processors; those at `place` where there are more than one set of them.

    Every peer is measured on the same ones, at place 0; while peers start side by side they have places of their own. XLA needs this: it
    makes a thread for each processor that it may use, whatever its flags say (`--xla_cpu_multi_thread_eigen=false` alone used 1.2 of 2
    cores). Where the system has no such call, the peers' own settings must do.
    """
    if not hasattr(os, "sched_setaffinity") or not THREADS.exists():
        return
    chosen = chosen_processors(processors(), threads, place)
    for thread in THREADS.iterdir():
        os.sched_setaffinity(int(thread.name), chosen)


def chosen_processors(ordered: list[int], threads: int, place: int) -> set[int]:
    sets = max(1, len(ordered) // threads)
    first = place % sets * threads
    return set(ordered[first : first + threads])


def processors() -> list[int]:
    """Those that the machine lets this process use, first one of each core, then the cores' other ones."""
    first_of_core: dict[str, int] = {}
    allowed = sorted(os.sched_getaffinity(os.getppid()))
    for processor in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
        first_of_core.setdefault(siblings.read_text() if siblings.exists() else str(processor), processor)
    first = list(first_of_core.values())
    return first + [processor for processor in allowed if processor not in first]
